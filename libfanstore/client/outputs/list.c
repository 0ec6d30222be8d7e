/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists output files (outputs.h). The daemon's answer is read into the caller's buffer and made
 * records of getdents64 there, of which none is longer than what the daemon says of its name. So a
 * large buffer needs few calls, and no second one.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "client/names/nodelocal.h"
#include "client/outputs/outputs.h"
#include "util/dirents.h"
#include "util/util.h"

static_assert(sizeof(struct fs_listed) > offsetof(struct dirent64, d_name), "no record is longer than its fs_listed");

/* A buffer of getdents64, and what is in it. */
struct listing {
  char *buf;
  size_t room, used;
  struct dirent64 *last;
};

/* Makes records of the names of an answer, which may lie where the records go. Returns 0, 1 if not
   all fit, or a negative errno. */
static fs_err put_names(struct listing *to, const char *page, size_t n, uint64_t *at) {
  struct fs_listed l;
  const char *name;
  for (size_t from = 0; from < n; *at = FS_OUTPUT_AT + l.seq) {
    if ((name = fs_listed_next(page, n, &from, &l)) == NULL) return -EIO;
    if (l.flags & FS_RECORD_TAKEN) continue; /* it is listed among the dataset's names */
    struct fs_dirent_view v = {.ino = l.id, .name = name, .name_len = l.name_len, .type = (uint8_t)IFTODT(l.mode)};
    char *end = to->buf + to->used;
    size_t len = fs_dirent_put(end, to->room - to->used, &v, FS_OUTPUT_AT + l.seq);
    if (len == 0) return 1;
    to->last = (struct dirent64 *)(void *)end;
    to->used += len;
  }
  return 0;
}

static fs_ssize list_outputs(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n) {
  char one[FS_LISTED_MOST] = "";
  const struct fs_node *node = fs_names_node();
  struct fs_names_call c = {.op = FS_NAMES_LIST, .list.dir = node == NULL ? 0 : fs_output_dir_id(mount, dir)};
  struct listing to = {.buf = buf, .room = n};
  size_t got;
  if (c.list.dir == 0 || !fs_output_maybe(node, c.list.dir)) return 0;
  /* The last part of a buffer is not worth a call. */
  while (to.used == 0 || to.room - to.used >= FS_NAMES_BODY / 2) {
    size_t left = to.room - to.used, most = FS_MIN(FS_MAX(left, sizeof(one)), FS_NAMES_BODY);
    char *page = left < sizeof(one) ? one : to.buf + to.used;
    c.list.after = *at < FS_OUTPUT_AT ? 0 : FS_MIN(*at - FS_OUTPUT_AT, FS_RECORD_SEQ_MAX);
    c.list.most = most;
    fs_err err = fs_names_call(&c, "", "", page, most, &got);
    if (err == -ENOENT) err = 0, got = 0; /* a directory that was removed is empty */
    if (err == 0) err = put_names(&to, page, got, at);
    if (err != 0) return to.used > 0 ? (fs_ssize)to.used : err < 0 ? err : -EINVAL;
    if (got + FS_LISTED_MOST > most) continue; /* there may be more names */
    *at = FS_NL_AT;
    if (to.last != NULL) to.last->d_off = FS_NL_AT;
    break;
  }
  return (fs_ssize)to.used;
}

fs_ssize fs_output_list(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n) {
  fs_ssize used = *at < FS_NL_AT ? list_outputs(mount, dir, at, buf, n) : 0;
  if (used != 0 || FS_LIKELY(fs_nl_any() == 0)) return used;
  uint64_t next = FS_MAX(*at, FS_NL_AT); /* all outputs are listed */
  used = fs_nl_list(mount, dir, &next, buf, n);
  if (used > 0) *at = next;
  return used;
}
