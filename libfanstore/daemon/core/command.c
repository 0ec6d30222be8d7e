/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launcher's lines (ipc/control.h). Rank 0 reads them from stdin in a thread of its own and
 * sends each to all other ranks. Every rank executes the lines in order. The MPI thread does
 * everything except the reading. The number of lines under way is bounded. The end of stdin means
 * that the launcher has gone, which counts as a stop.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/module.h"
#include "util/sys.h"

#define FS_LINES_QUEUED 256u
#define FS_LINES_SENT 16u
/* messages of all lines under way; one line to more ranks may exceed it */
#define FS_LINE_MESSAGES 4096u
#define FS_STOP_NS 1000000000ull
#define FS_STOP_LINE "@fs stop"
#define FS_GONE_LINE "@fs stop gone=1" /* MPI ends before the job */
#define FS_ACK_LINE "@fs ack"
#define FS_CANCEL_LINE "@fs cancel"
#define FS_FINISH_LINE "@fs finish keep=1"
#define FS_NAMED 10u          /* outputs that are named */
#define FS_NAMED_ALONE 10000u /* the same if the launcher cannot be asked how many it wants */
#define FS_FINISHED_LINE "@fs finished"
/* if the launcher has gone; its guard waits for six seconds */
#define FS_FINISH_NS 4000000000ull
/* time to copy outputs if mpirun has gone, but not the launcher */
#define FS_ALONE_COPY_NS 15000000000ull
#define FS_ALONE_NS 30000000000ull /* the whole time in that case */

struct fs_text_line {
  struct fs_text_line *next;
  size_t len;
  char text[];
};

struct fs_passing; /* a line on its way to the other ranks */
struct fs_pass {
  struct fs_net_op op;
  struct fs_passing *line;
};
struct fs_passing {
  struct fs_commands *owner;
  uint32_t pending;
  size_t len;
  char text[FS_CONTROL_LINE];
  struct fs_pass pass[];
};

struct fs_commands {
  struct fs_daemon *d;
  pthread_mutex_t lock;
  struct fs_text_line *head, **tail;
  _Atomic uint32_t queued;
  uint32_t under_way, acks;
  bool go, stopped, receiving, ack_sent, telling;
  _Atomic bool abandoned; /* the launcher has gone, and outputs have to be kept until `finish_by` */
  uint32_t finished;      /* ranks that have finished */
  bool has_finished[FS_MAX_NODES];
  uint64_t finish_by;
  uint64_t alone_since; /* when mpirun has gone */
  uint64_t heard;
  struct fs_net_op recv, ack, tell;
  char buffer[FS_CONTROL_LINE];
};

/* ---- the reader ---- */

static void fs_commands_queue(struct fs_commands *c, const char *text, size_t len) {
  struct fs_text_line *l = malloc(sizeof(*l) + len);
  if (!l) return;
  l->next = NULL;
  l->len = len;
  memcpy(l->text, text, len);
  while (atomic_load(&c->queued) >= FS_LINES_QUEUED) usleep(1000);
  pthread_mutex_lock(&c->lock);
  *c->tail = l;
  c->tail = &l->next;
  atomic_fetch_add(&c->queued, 1);
  pthread_mutex_unlock(&c->lock);
  fs_daemon_wake(c->d);
}

/* Returns true if the input has ended because the parent process has gone, and MPI with it.
   False means that the launcher has gone. */
static bool fs_commands_orphaned(pid_t parent) {
  /* a dying process closes its files a moment before it ends */
  for (unsigned waited = 0; getppid() == parent; waited += 10) {
    if (waited == 200) return false;
    usleep(10000);
  }
  return true;
}

static void *fs_commands_reader(void *arg) {
  struct fs_commands *c = arg;
  pid_t parent = getppid();
  char buf[2 * FS_CONTROL_LINE];
  size_t n = 0;
  for (;;) {
    fs_ssize got = fs_sys_read(STDIN_FILENO, buf + n, sizeof(buf) - n);
    if (got == -EINTR) continue;
    if (got == -EAGAIN) {
      struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
      poll(&p, 1, 1000);
      continue;
    }
    if (got <= 0) break;
    n += (size_t)got;
    char *start = buf, *end;
    while ((end = memchr(start, '\n', n - (size_t)(start - buf))) != NULL) {
      fs_commands_queue(c, start, (size_t)(end - start));
      start = end + 1;
    }
    n -= (size_t)(start - buf);
    memmove(buf, start, n);
    if (n == sizeof(buf)) n = 0; /* no valid line is so long */
  }
  const struct fs_daemon_config *cfg = c->d->cfg;
  bool orphaned = fs_commands_orphaned(parent);
  if (orphaned && !cfg->read_only) return NULL; /* the guard notices it, too: fs_commands_alone */
  if (cfg->keep || cfg->stage_out) {
    fs_commands_queue(c, FS_FINISH_LINE, strlen(FS_FINISH_LINE));
    atomic_store(&c->abandoned, true);
  } else {
    const char *last = orphaned ? FS_GONE_LINE : FS_STOP_LINE;
    fs_commands_queue(c, last, strlen(last));
  }
  return NULL;
}

/* ---- the MPI thread ---- */

static void fs_commands_over(struct fs_commands *c, uint32_t rank) {
  c->finished += !c->has_finished[rank];
  c->has_finished[rank] = true;
}

static void fs_commands_obey(struct fs_commands *c, uint32_t from, const char *text, size_t len) {
  struct fs_control line;
  struct fs_daemon *d = c->d;
  uint64_t purge = 0, gone = 0;
  c->heard = d->now;
  if (fs_control_parse(text, len, &line) < 0) return; /* noise */
  if (strcmp(line.verb, "stop") == 0) {
    if (fs_control_get_u64(&line, "purge", &purge) == 0 && purge) atomic_store(&d->purge, true);
    if (fs_control_get_u64(&line, "gone", &gone) != 0 || !gone) atomic_store(&d->over, true);
    c->stopped = true;
    atomic_store(&d->stop, true);
  } else if (strcmp(line.verb, "ack") == 0) {
    c->acks++;
  } else if (strcmp(line.verb, "finished") == 0) {
    fs_commands_over(c, from);
  } else if ((strcmp(line.verb, "finish") == 0 && c->stopped) || fs_modules_obey(d, &line) || c->go) {
    /* all is done and the launcher has gone; or a part has taken it; or the placement is
       complete */
    return;
  } else if (strcmp(line.verb, "go") == 0) {
    c->go = true;
  } else if (strcmp(line.verb, "place") == 0 && fs_place_apply(d, &line) < 0) {
    fs_say_text(d, "fail", "a line of the placement makes no sense");
    fs_daemon_leave(d, 1);
  }
}

static void fs_commands_receive(struct fs_commands *c);

static void fs_commands_received(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct fs_commands *c = FS_ITEM(op, struct fs_commands, recv);
  c->receiving = false;
  if (err == 0 && peer < FS_MAX_NODES) fs_commands_obey(c, peer, c->buffer, bytes);
  fs_commands_receive(c);
}

static void fs_commands_receive(struct fs_commands *c) {
  struct fs_net *net = c->d->net;
  c->recv.done = fs_commands_received;
  uint32_t from = net->rank == 0 ? FS_NET_ANY : 0;
  c->receiving = fs_net_recv(net, from, FS_TAG_CONTROL, c->buffer, sizeof(c->buffer), &c->recv) == 0;
}

static void fs_commands_passed(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct fs_passing *p = FS_ITEM(op, struct fs_pass, op)->line;
  (void)peer, (void)bytes, (void)err;
  if (--p->pending > 0) return;
  p->owner->under_way--;
  free(p);
}

static void fs_commands_pass(struct fs_commands *c, const char *text, size_t len) {
  struct fs_net *net = c->d->net;
  if (net->nodes == 1 || len > FS_CONTROL_LINE) return;
  struct fs_passing *p = calloc(1, sizeof(*p) + net->nodes * sizeof(p->pass[0]));
  if (!p) return;
  p->owner = c;
  p->len = len;
  memcpy(p->text, text, len);
  for (uint32_t i = 1; i < net->nodes; i++) {
    p->pass[i].line = p;
    p->pass[i].op.done = fs_commands_passed;
    if (fs_net_send(net, i, FS_TAG_CONTROL, p->text, len, &p->pass[i].op) == 0) p->pending++;
  }
  if (p->pending > 0)
    c->under_way++;
  else
    free(p);
}

static struct fs_text_line *fs_commands_next(struct fs_commands *c) {
  if (atomic_load_explicit(&c->queued, memory_order_acquire) == 0) return NULL;
  pthread_mutex_lock(&c->lock);
  struct fs_text_line *l = c->head;
  c->head = l->next;
  if (!c->head) c->tail = &c->head;
  atomic_fetch_sub(&c->queued, 1);
  pthread_mutex_unlock(&c->lock);
  return l;
}

static void fs_commands_has_told(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  (void)peer, (void)bytes, (void)err;
  FS_ITEM(op, struct fs_commands, tell)->telling = false;
}

void fs_commands_finished(struct fs_daemon *d) {
  struct fs_commands *c = d->commands;
  c->tell.done = fs_commands_has_told;
  if (d->net->rank == 0)
    fs_commands_over(c, 0);
  else if (!c->telling)
    c->telling = fs_net_send(d->net, 0, FS_TAG_CONTROL, FS_FINISHED_LINE, strlen(FS_FINISHED_LINE), &c->tell) == 0;
}

/* Ends the job after the launcher has gone, when nobody will say stop any more. All ranks leave
   at once, as a rank that has left answers no questions about names. */
static void fs_commands_abandoned(struct fs_commands *c) {
  const struct fs_daemon *d = c->d;
  if (!atomic_load_explicit(&c->abandoned, memory_order_acquire)) return;
  if (c->finish_by == 0) c->finish_by = d->now + FS_FINISH_NS;
  if (d->ctl && c->finished < d->net->nodes && d->now < c->finish_by) return;
  atomic_store(&c->abandoned, false);
  fs_commands_pass(c, FS_STOP_LINE, strlen(FS_STOP_LINE));
  fs_commands_obey(c, d->net->rank, FS_STOP_LINE, strlen(FS_STOP_LINE));
}

/* Begins the end of the job as the command line asks. */
static void fs_commands_finish(struct fs_commands *c, unsigned names, const char *more) {
  struct fs_daemon *d = c->d;
  char text[64];
  int n = snprintf(text, sizeof(text), "@fs finish names=%u keep=%d stage=%d%s", names, d->cfg->keep,
                   d->cfg->stage_out != NULL, more);
  fs_commands_obey(c, d->net->rank, text, (size_t)n);
}

/* Returns true if all members have finished. Ranks that died together with mpirun are evicted
   once they have been asked for names. */
static bool fs_commands_all_over(const struct fs_commands *c) {
  for (uint32_t i = 0; i < c->d->net->nodes; i++)
    if (!c->has_finished[i] && fs_modules_member(c->d, i)) return false;
  return true;
}

/*
 * Handles the case that mpirun has gone before the job's end; each rank notices that by itself.
 * Outputs are copied, kept or named as at the end, and programs write nothing any more. The
 * launcher finds this rank's lines in the run directory.
 */
static void fs_commands_alone(struct fs_commands *c) {
  struct fs_daemon *d = c->d;
  bool first = d->net->rank == 0;
  if (!atomic_load_explicit(&d->alone, memory_order_acquire) || c->stopped) return;
  if (c->alone_since == 0) {
    c->alone_since = d->now;
    atomic_store(&d->ctl->stopping, 1);
    (void)unlink(d->socket_path);
    fs_clients_release_all(d);
    fs_say_aside(d);
    fs_commands_finish(c, FS_NAMED_ALONE, " alone=1");
  }
  uint64_t past = d->now - c->alone_since;
  if (past > FS_ALONE_COPY_NS) fs_commands_obey(c, d->net->rank, FS_CANCEL_LINE, strlen(FS_CANCEL_LINE));
  if (first ? !fs_commands_all_over(c) : fs_modules_member(d, 0) || d->outputs_pending) {
    if (past < FS_ALONE_NS) return;
  } else if (!first && past < FS_FINISH_NS) {
    return; /* other ranks may ask for names */
  }
  fs_commands_pass(c, FS_GONE_LINE, strlen(FS_GONE_LINE));
  fs_commands_obey(c, d->net->rank, FS_GONE_LINE, strlen(FS_GONE_LINE));
}

/* Handles the launcher's words that came as signals through mpirun. They mean what rank 0 would
   have passed on. */
static void fs_commands_told(struct fs_commands *c) {
  struct fs_daemon *d = c->d;
  if (atomic_exchange(&d->finish_told, false)) fs_commands_finish(c, FS_NAMED, "");
  if (atomic_exchange(&d->stop_told, false)) fs_commands_obey(c, d->net->rank, FS_STOP_LINE, strlen(FS_STOP_LINE));
}

int fs_commands_run(struct fs_daemon *d) {
  struct fs_commands *c = d->commands;
  uint32_t most = FS_MIN(FS_MAX(FS_LINE_MESSAGES / d->net->nodes, 1u), FS_LINES_SENT);
  int n = 0;
  while (c->under_way < most) {
    FS_AUTO_FREE struct fs_text_line *l = fs_commands_next(c);
    if (!l) break;
    fs_commands_pass(c, l->text, l->len);
    fs_commands_obey(c, d->net->rank, l->text, l->len);
    n++;
  }
  fs_commands_told(c);
  fs_commands_abandoned(c);
  fs_commands_alone(c);
  return n;
}

bool fs_commands_go(const struct fs_daemon *d) {
  return d->commands->go;
}

uint64_t fs_commands_heard(const struct fs_daemon *d) {
  return d->commands->heard;
}

static void fs_commands_acked(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  (void)peer, (void)bytes, (void)err;
  FS_ITEM(op, struct fs_commands, ack)->ack_sent = true;
}

void fs_commands_stop(struct fs_daemon *d) {
  struct fs_commands *c = d->commands;
  if (!c->stopped || d->net->nodes == 1) return;
  uint64_t end = fs_now_ns() + FS_STOP_NS;
  bool first = d->net->rank == 0;
  c->ack.done = fs_commands_acked;
  if (!first && fs_net_send(d->net, 0, FS_TAG_CONTROL, FS_ACK_LINE, strlen(FS_ACK_LINE), &c->ack) < 0) return;
  while (fs_now_ns() < end) {
    if (fs_net_poll(d->net) == 0) usleep(100);
    if (first ? c->under_way == 0 && c->acks >= d->net->nodes - 1 : c->ack_sent) break;
  }
}

fs_err fs_commands_start(struct fs_daemon *d) {
  static struct fs_commands commands;
  struct fs_commands *c = &commands;
  c->d = d;
  c->tail = &c->head;
  c->heard = d->now = fs_now_ns();
  pthread_mutex_init(&c->lock, NULL);
  d->commands = c;
  if (d->net->nodes > 1) fs_commands_receive(c);
  return d->net->rank == 0 ? fs_thread_start(fs_commands_reader, c) : 0;
}
