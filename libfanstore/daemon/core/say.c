/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's lines to the launcher (ipc/control.h) on stdout. Each line is one write(2), so that
 * lines of several threads do not mix and none waits in a buffer. fs-launch joins what mpirun cuts
 * into pieces (fs-launch/lines.c). All threads of the daemon call this. If mpirun, which carries the
 * lines, has gone, they go into a file of the run directory, which the launcher reads at the end of
 * the job.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "ipc/node.h"
#include "util/sys.h"

static _Atomic int aside = STDOUT_FILENO;

void fs_say_line(struct fs_control_line *l) {
  if (fs_control_end(l) == 0) (void)fs_write_full(atomic_load(&aside), l->text, l->len);
}

bool fs_say_room(void) {
  struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return atomic_load(&aside) == STDOUT_FILENO && poll(&p, 1, 0) > 0 && (p.revents & POLLOUT);
}

/* Begins a line of a daemon that has no MPI yet. */
static fs_err fs_say_early(struct fs_control_line *l, const char *verb) {
  uint64_t rank;
  const char *text = getenv("OMPI_COMM_WORLD_RANK");
  if (!text) text = getenv("PMIX_RANK"); /* started by srun */
  if (!text || fs_parse_u64(text, 0, FS_MAX_NODES - 1, &rank) < 0) return -ENOENT;
  fs_err err = fs_control_begin(l, verb);
  return err < 0 ? err : fs_control_add_u64(l, "rank", rank);
}

void fs_say_failed(const char *why) {
  struct fs_control_line l;
  if (fs_say_early(&l, "fail") == 0 && fs_control_add(&l, "text", why) == 0) fs_say_line(&l);
}

void fs_say_begun(const char *network) {
  struct fs_control_line l;
  char host[256] = "?";
  gethostname(host, sizeof(host) - 1);
  if (fs_say_early(&l, "begun") == 0 && fs_control_add(&l, "host", host) == 0 &&
      (network[0] == '\0' || fs_control_add(&l, "network", network) == 0) &&
      fs_control_add_u64(&l, "pid", (uint64_t)getpid()) == 0 && fs_control_add(&l, "version", FS_VERSION) == 0 &&
      fs_control_add_u64(&l, "ipc", FS_IPC_VERSION) == 0 && fs_control_add_u64(&l, "wire", FS_WIRE_VERSION) == 0)
    fs_say_line(&l);
}

void fs_say_aside(const struct fs_daemon *d) {
  char path[PATH_MAX];
  if (fs_run_said(d->run, d->net->rank, path, sizeof(path)) < 0) return;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0) atomic_store(&aside, fd);
}

fs_err fs_say_begin(const struct fs_daemon *d, struct fs_control_line *l, const char *verb) {
  fs_err err = fs_control_begin(l, verb);
  return err < 0 ? err : fs_control_add_u64(l, "rank", d->net->rank);
}

void fs_say_text(const struct fs_daemon *d, const char *verb, const char *format, ...) {
  char text[1024];
  struct fs_control_line l;
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof(text), format, ap);
  va_end(ap);
  if (fs_say_begin(d, &l, verb) == 0 && fs_control_add(&l, "text", text) == 0) fs_say_line(&l);
}

#define FS_HAVE_TEXT (FS_CONTROL_LINE - 256)

/* Writes "0,4-7" for the staged partitions from *part on. Moves *part behind those that had
   room. */
static void fs_say_parts(const struct fs_dataset *ds, uint32_t *part, char *text) {
  size_t n = 0;
  uint32_t p = *part;
  text[0] = '\0';
  while (p < ds->partitions && n < FS_HAVE_TEXT - 16) {
    if (!ds->have[p]) {
      p++;
      continue;
    }
    uint32_t first = p;
    while (p < ds->partitions && ds->have[p]) p++;
    int put = p - first > 1 ? snprintf(text + n, FS_HAVE_TEXT - n, "%s%u-%u", n ? "," : "", first, p - 1)
                            : snprintf(text + n, FS_HAVE_TEXT - n, "%s%u", n ? "," : "", first);
    n += (size_t)put;
  }
  while (p < ds->partitions && !ds->have[p]) p++;
  *part = p;
}

void fs_say_have(const struct fs_daemon *d, uint32_t dataset) {
  const struct fs_dataset *ds = &d->data[dataset];
  uint32_t part = 0;
  do {
    char text[FS_HAVE_TEXT];
    struct fs_control_line l;
    fs_say_parts(ds, &part, text);
    bool ok = fs_say_begin(d, &l, "have") == 0 && fs_control_add_u64(&l, "dataset", dataset) == 0 &&
              fs_control_add(&l, "parts", text) == 0;
    if (part < ds->partitions) ok = ok && fs_control_add_u64(&l, "more", 1) == 0;
    if (ok) fs_say_line(&l);
  } while (part < ds->partitions);
}
