/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch stats --listen: a small HTTP/1.1 server for Prometheus. It serves one request at a time
 * and closes the connection. A request has FS_HTTP_BYTES and FS_HTTP_NS at most, the answer the same
 * time: a client that hangs costs the next one no more than this. The request's body is not read.
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
#define FS_HTTP_NS (2 * FS_NS_PER_S)
#define FS_HTTP_LOOK_MS 500 /* look so often whether the job is there */
#define FS_HTTP_UNIX "unix:"

/* Waits for events on fd until the time. Returns false if there are none. */
static bool ready(int fd, short events, uint64_t until_ns) {
  for (uint64_t now; (now = fs_now_ns()) < until_ns && fs_watch_signal() == 0;) {
    struct pollfd p = {.fd = fd, .events = events};
    int n = poll(&p, 1, (int)((until_ns - now) / 1000000) + 1);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
  return false;
}

/* Reads up to the empty line. Returns false if there is none within the bounds. */
static bool request(int fd, char text[FS_HTTP_BYTES]) {
  uint64_t until = fs_now_ns() + FS_HTTP_NS;
  size_t have = 0;
  while (have + 1 < FS_HTTP_BYTES && ready(fd, POLLIN, until)) {
    ssize_t n = recv(fd, text + have, FS_HTTP_BYTES - 1 - have, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n < 0) continue;
    have += (size_t)n;
    text[have] = '\0';
    if (strlen(text) < have) return false; /* a NUL */
    if (strstr(text, "\r\n\r\n") || strstr(text, "\n\n")) return true;
  }
  return false;
}

static void send_all(int fd, const char *text, size_t n) {
  uint64_t until = fs_now_ns() + FS_HTTP_NS;
  while (n > 0 && ready(fd, POLLOUT, until)) {
    ssize_t sent = send(fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return;
    if (sent <= 0) continue;
    text += sent;
    n -= (size_t)sent;
  }
}

static void respond(int fd, const char *status, const char *more, const char *body, size_t n) {
  char head[512];
  int len = snprintf(head, sizeof(head),
                     "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                     "Content-Length: %zu\r\n%sConnection: close\r\n\r\n",
                     status, n, more);
  send_all(fd, head, (size_t)len);
  send_all(fd, body, n);
}

static void refuse(int fd, const char *status, const char *more) {
  char body[64];
  int n = snprintf(body, sizeof(body), "%s\n", status);
  respond(fd, status, more, body, (size_t)n);
}

static void serve_metrics(int fd, const struct fs_job *job) {
  struct fs_view l;
  char *body = NULL;
  size_t n = 0;
  if (fs_watch_read(job, &l) != 0) {
    refuse(fd, "503 Service Unavailable", "");
    return;
  }
  FILE *out = open_memstream(&body, &n);
  if (out) fs_metrics_prometheus(&l, out);
  fs_view_free(&l);
  if (out && fclose(out) == 0)
    respond(fd, "200 OK", "", body, n);
  else
    refuse(fd, "500 Internal Server Error", "");
  free(body);
}

/* Answers one request: "METHOD PATH HTTP/1.x". A query after the path is ignored. */
static void serve(int fd, const struct fs_job *job) {
  static char text[FS_HTTP_BYTES];
  text[0] = '\0';
  if (!request(fd, text)) {
    refuse(fd, "400 Bad Request", "");
    return;
  }
  char *method = text, *path = text + strcspn(text, " \r\n");
  if (*path == ' ') *path++ = '\0';
  char *version = path + strcspn(path, " \r\n");
  bool whole = *version == ' ' && strncmp(version + 1, "HTTP/1.", 7) == 0;
  *version = '\0';
  path[strcspn(path, "?")] = '\0';
  if (!whole)
    refuse(fd, "400 Bad Request", "");
  else if (strcmp(path, "/metrics") != 0)
    refuse(fd, "404 Not Found", "");
  else if (strcmp(method, "GET") != 0)
    refuse(fd, "405 Method Not Allowed", "Allow: GET\r\n");
  else
    serve_metrics(fd, job);
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

int fs_watch_listen(const char *address, const struct fs_job *job) {
  bool is_unix = strncmp(address, FS_HTTP_UNIX, strlen(FS_HTTP_UNIX)) == 0;
  fs_watch_signals();
  FS_AUTO_CLOSE int fd = is_unix ? listen_unix(address) : listen_port(address);
  if (fd < 0) return FS_EXIT_FAILED;
  while (fs_watch_signal() == 0 && fs_run_held(job->run)) {
    if (!ready(fd, POLLIN, fs_now_ns() + FS_HTTP_LOOK_MS * 1000000ull)) continue;
    FS_AUTO_CLOSE int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    if (client >= 0)
      serve(client, job);
    else
      usleep(10000); /* no descriptor is free, perhaps */
  }
  if (is_unix) unlink(address + strlen(FS_HTTP_UNIX));
  fs_watch_die();
  return 0;
}
