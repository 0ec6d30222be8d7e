/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch stats --listen: a small HTTP/1.1 server for Prometheus. It serves FS_HTTP_CLIENTS
 * connections at once, one request each, and closes them. A request has FS_HTTP_BYTES and FS_HTTP_NS
 * at most, the answer the same time. The request's body is not read. One thread.
 */
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "watch.h"

#define FS_HTTP_BYTES 8192u
#define FS_HTTP_CLIENTS 16u
#define FS_HTTP_NS (2 * FS_NS_PER_S)
#define FS_HTTP_LOOK_MS 500 /* look so often whether the job is there */
#define FS_HTTP_UNIX "unix:"

/* A connection: first the request is read, then `answer` is sent. */
struct client {
  int fd;            /* -1: this place is free */
  uint64_t until_ns; /* of what it does now */
  size_t have;       /* bytes of the request */
  char request[FS_HTTP_BYTES];
  char *answer; /* NULL: the request is not whole */
  size_t length, sent;
};

static void end(struct client *c) {
  if (c->fd >= 0) close(c->fd);
  free(c->answer);
  c->fd = -1;
  c->answer = NULL;
}

static void respond(struct client *c, const char *status, const char *more, const char *body, size_t n) {
  FILE *out = open_memstream(&c->answer, &c->length);
  c->sent = 0;
  c->until_ns = fs_now_ns() + FS_HTTP_NS;
  if (!out) return;
  fprintf(out,
          "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
          "Content-Length: %zu\r\n%sConnection: close\r\n\r\n",
          status, n, more);
  fwrite(body, 1, n, out);
  if (fclose(out) == 0) return;
  free(c->answer);
  c->answer = NULL;
}

static void refuse(struct client *c, const char *status, const char *more) {
  char body[64];
  int n = snprintf(body, sizeof(body), "%s\n", status);
  respond(c, status, more, body, (size_t)n);
}

static void serve_metrics(struct client *c, const struct fs_job *job) {
  struct fs_view l;
  FS_AUTO_FREE char *body = NULL;
  size_t n = 0;
  if (fs_watch_read(job, &l) != 0) {
    refuse(c, "503 Service Unavailable", "");
    return;
  }
  FILE *out = open_memstream(&body, &n);
  if (out) fs_metrics_prometheus(&l, out);
  fs_view_free(&l);
  if (out && fclose(out) == 0)
    respond(c, "200 OK", "", body, n);
  else
    refuse(c, "500 Internal Server Error", "");
}

/* Answers a request: "METHOD PATH HTTP/1.x". A query after the path is ignored. */
static void serve(struct client *c, const struct fs_job *job) {
  char *method = c->request, *path = c->request + strcspn(c->request, " \r\n");
  if (*path == ' ') *path++ = '\0';
  char *version = path + strcspn(path, " \r\n");
  bool whole = *version == ' ' && strncmp(version + 1, "HTTP/1.", 7) == 0;
  *version = '\0';
  path[strcspn(path, "?")] = '\0';
  if (!whole)
    refuse(c, "400 Bad Request", "");
  else if (strcmp(path, "/metrics") != 0)
    refuse(c, "404 Not Found", "");
  else if (strcmp(method, "GET") != 0)
    refuse(c, "405 Method Not Allowed", "Allow: GET\r\n");
  else
    serve_metrics(c, job);
}

/* Reads of the request what is there. At the empty line, or if there will be none, the answer is made. */
static void receive(struct client *c, const struct fs_job *job) {
  ssize_t n = recv(c->fd, c->request + c->have, sizeof(c->request) - 1 - c->have, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) c->have += (size_t)n;
  c->request[c->have] = '\0';
  bool bad = n <= 0 || strlen(c->request) < c->have; /* a NUL */
  if (!bad && (strstr(c->request, "\r\n\r\n") || strstr(c->request, "\n\n")))
    serve(c, job);
  else if (bad || c->have + 1 == sizeof(c->request))
    refuse(c, "400 Bad Request", "");
}

static void transmit(struct client *c) {
  ssize_t n = send(c->fd, c->answer + c->sent, c->length - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) c->sent += (size_t)n;
  if ((n < 0 && errno != EAGAIN && errno != EINTR) || c->sent == c->length) end(c);
}

/* The time has come, or the connection has an event. */
static void go_on(struct client *c, short events, const struct fs_job *job) {
  if (fs_now_ns() >= c->until_ns) {
    if (c->answer)
      end(c);
    else
      refuse(c, "400 Bad Request", "");
  }
  if (c->fd < 0 || events == 0) return;
  if (c->answer)
    transmit(c);
  else
    receive(c, job);
}

static void not_listening(const char *address, const char *why) {
  fs_say("--listen %s: %s", address, why);
}

/* Returns true if nobody listens on this socket any more. */
static bool is_dead_socket(const struct sockaddr_un *a) {
  struct stat st;
  FS_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || lstat(a->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode) || st.st_uid != geteuid()) return false;
  return connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 && errno == ECONNREFUSED;
}

/* Only this user can connect to the socket. */
static int listen_unix(const char *address) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  const char *path = address + strlen(FS_HTTP_UNIX);
  if (path[0] == '\0' || strlen(path) >= sizeof(a.sun_path)) {
    not_listening(address, path[0] == '\0' ? "give unix:PATH" : "the path is too long for a socket");
    return -1;
  }
  strcpy(a.sun_path, path);
  if (is_dead_socket(&a)) unlink(path);
  FS_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  mode_t mask = umask(077);
  bool ok = fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 16) == 0;
  int err = errno;
  umask(mask);
  if (ok) return FS_MOVE_FD(fd);
  not_listening(address, strerror(err));
  return -1;
}

/* Splits [HOST:]PORT, with an IPv6 address in brackets. Returns false if it is not of this form. */
static bool split(const char *address, char host[256], const char **port) {
  const char *colon = strrchr(address, ':');
  uint64_t number;
  strcpy(host, "127.0.0.1");
  *port = colon ? colon + 1 : address;
  if (fs_parse_u64(*port, 1, 65535, &number) < 0) return false;
  if (!colon) return true;
  size_t n = (size_t)(colon - address);
  if (n > 2 && address[0] == '[' && colon[-1] == ']') {
    address++;
    n -= 2;
  }
  if (n == 0 || n >= 256) return false;
  memcpy(host, address, n);
  host[n] = '\0';
  return true;
}

static int listen_port(const char *address) {
  char host[256];
  const char *port;
  struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  if (!split(address, host, &port)) {
    not_listening(address, "give PORT, HOST:PORT or unix:PATH");
    return -1;
  }
  int bad = getaddrinfo(host, port, &hints, &found), on = 1;
  if (bad != 0) {
    not_listening(address, gai_strerror(bad));
    return -1;
  }
  FS_AUTO_CLOSE int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  bool ok = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 16) == 0;
  if (!ok) not_listening(address, strerror(errno));
  freeaddrinfo(found);
  return ok ? FS_MOVE_FD(fd) : -1;
}

static void admit(int fd, struct client client[FS_HTTP_CLIENTS]) {
  int new = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
  if (new < 0) usleep(10000); /* no descriptor is free, perhaps */
  for (unsigned i = 0; new >= 0 && i < FS_HTTP_CLIENTS; i++) {
    if (client[i].fd >= 0) continue;
    client[i].fd = FS_MOVE_FD(new);
    client[i].have = 0;
    client[i].until_ns = fs_now_ns() + FS_HTTP_NS;
  }
  if (new >= 0) close(new);
}

/* Waits for one event, or a moment. Connections wait in the kernel while all places are taken. */
static void step(int fd, struct client client[FS_HTTP_CLIENTS], const struct fs_job *job) {
  struct pollfd p[FS_HTTP_CLIENTS + 1];
  bool room = false;
  for (unsigned i = 0; i < FS_HTTP_CLIENTS; i++) {
    p[i] = (struct pollfd){.fd = client[i].fd, .events = client[i].answer ? POLLOUT : POLLIN};
    room = room || client[i].fd < 0;
  }
  p[FS_HTTP_CLIENTS] = (struct pollfd){.fd = room ? fd : -1, .events = POLLIN};
  if (poll(p, FS_HTTP_CLIENTS + 1, FS_HTTP_LOOK_MS) < 0) return;
  for (unsigned i = 0; i < FS_HTTP_CLIENTS; i++)
    if (client[i].fd >= 0) go_on(&client[i], p[i].revents, job);
  if (p[FS_HTTP_CLIENTS].revents) admit(fd, client);
}

int fs_watch_listen(const char *address, const struct fs_job *job) {
  static struct client client[FS_HTTP_CLIENTS];
  bool is_unix = strncmp(address, FS_HTTP_UNIX, strlen(FS_HTTP_UNIX)) == 0;
  fs_watch_signals();
  FS_AUTO_CLOSE int fd = is_unix ? listen_unix(address) : listen_port(address);
  if (fd < 0) return FS_EXIT_FAILED;
  for (unsigned i = 0; i < FS_HTTP_CLIENTS; i++) client[i].fd = -1;
  while (fs_watch_signal() == 0 && fs_run_held(job->run)) step(fd, client, job);
  for (unsigned i = 0; i < FS_HTTP_CLIENTS; i++) end(&client[i]);
  if (is_unix) unlink(address + strlen(FS_HTTP_UNIX));
  fs_watch_die();
  return 0;
}
