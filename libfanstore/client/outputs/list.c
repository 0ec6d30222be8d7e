/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists output files (outputs.h): as many of a page of the daemon's as fit, from a position on. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "client/names/nodelocal.h"
#include "client/outputs/outputs.h"
#include "util/dirents.h"
#include "util/util.h"

static fs_ssize list_outputs(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n) {
  alignas(8) char page[4096];
  const struct fs_node *node = fs_names_node();
  struct fs_names_call c = {.op = FS_NAMES_LIST, .list.dir = node == NULL ? 0 : fs_output_dir_id(mount, dir)};
  size_t used = 0, got, done = 0;
  if (c.list.dir == 0 || !fs_output_maybe(node, c.list.dir)) return 0;
  for (;;) {
    const struct fs_record *r;
    size_t from = 0, len = 0;
    c.list.after = *at < FS_OUTPUT_AT ? 0 : FS_MIN(*at - FS_OUTPUT_AT, FS_RECORD_SEQ_MAX);
    fs_err err = fs_names_call(&c, "", "", page, sizeof(page), &got);
    if (err == -ENOENT) err = 0, got = 0; /* a directory that was removed is empty */
    if (err != 0) return used > 0 ? (fs_ssize)used : err;
    for (done = 0; (r = fs_record_next(page, got, &from)) != NULL; done++) {
      if (r->flags & FS_RECORD_TAKEN) { /* it is listed among the dataset's names */
        *at = FS_OUTPUT_AT + r->seq;
        continue;
      }
      struct fs_dirent_view v = {
          .ino = r->id, .name = fs_record_name(r), .name_len = r->name_len, .type = (uint8_t)IFTODT(r->mode)};
      len = fs_dirent_put((char *)buf + used, n - used, &v, FS_OUTPUT_AT + r->seq);
      if (len == 0) return used > 0 ? (fs_ssize)used : -EINVAL;
      used += len;
      *at = FS_OUTPUT_AT + r->seq;
    }
    if (done == 0) return (fs_ssize)used;
  }
}

fs_ssize fs_output_list(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n) {
  fs_ssize used = *at < FS_NL_AT ? list_outputs(mount, dir, at, buf, n) : 0;
  if (used != 0 || FS_LIKELY(fs_nl_any() == 0)) return used;
  uint64_t next = FS_MAX(*at, FS_NL_AT); /* all outputs are listed */
  used = fs_nl_list(mount, dir, &next, buf, n);
  if (used > 0) *at = next;
  return used;
}
