/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the launcher is told of this rank's outputs: how many there are, what becomes of them, and
 * why some were not copied or kept (ipc/control.h). Called by finish.c.
 */
#include <string.h>

#include "daemon/finish/finish_priv.h"
#include "daemon/stageout/stageout.h"

const char *fs_output_why(fs_err err) {
  if (err == -EAGAIN) return "somebody goes on writing it";
  if (err == -EHOSTDOWN) return "a node that has some of the bytes does not answer";
  if (err == -EEXIST) return "something else has the name already";
  if (err == -ECANCELED) return "broken off";
  if (err == -EINPROGRESS) return "broken off while it was copied: it may be there all the same";
  return err == -ENOLINK ? "the nodes that had the name do not answer" : strerror(-err);
}

static void fs_outputs_tell_reason(const struct fs_daemon *d, const struct fs_outputs_reason *r) {
  struct fs_control_line l;
  if (fs_say_begin(d, &l, "failed") < 0) return;
  (void)fs_control_add_u64(&l, "failed", r->failed);
  (void)fs_control_add_u64(&l, "unkept", r->unkept);
  (void)fs_control_add_u64(&l, "lost", r->lost);
  (void)fs_control_add_u64(&l, "others", r->others);
  (void)fs_control_add(&l, "why", fs_output_why(r->err));
  fs_say_line(&l);
}

void fs_outputs_tell_gone(const struct fs_daemon *d, const struct fs_output *output, const char *path) {
  struct fs_control_line l;
  if (fs_say_begin(d, &l, "output") == 0 && fs_control_add_u64(&l, "size", output->size) == 0 &&
      fs_control_add_u64(&l, "gone", FS_OUTPUT_ID_RANK(output->id)) == 0 && fs_control_add(&l, "name", path) == 0)
    fs_say_line(&l);
}

void fs_outputs_tell(const struct fs_daemon *d, bool end) {
  const struct fs_outputs *o = d->outputs;
  struct fs_control_line l;
  char dir[PATH_MAX];
  for (uint32_t i = 0; i < FS_OUTPUTS_REASONS && o->reason[i].err != 0; i++) fs_outputs_tell_reason(d, &o->reason[i]);
  if (fs_say_begin(d, &l, "outputs") < 0) return;
  (void)fs_control_add_u64(&l, "files", o->files);
  (void)fs_control_add_u64(&l, "bytes", o->bytes);
  if (o->kept && fs_keep_dir(d, dir, sizeof(dir)) == 0) (void)fs_control_add(&l, "kept", dir);
  if (o->stage) {
    (void)fs_control_add_u64(&l, "done", FS_MIN(o->bytes + fs_stageout_under_way(d), o->total));
    (void)fs_control_add_u64(&l, "total", o->total);
    (void)fs_control_add_u64(&l, "staged", o->staged);
  }
  if (o->dirs > 0) (void)fs_control_add_u64(&l, "dirs", o->dirs);
  if (o->links > 0) (void)fs_control_add_u64(&l, "links", o->links);
  if (o->failed > 0) (void)fs_control_add_u64(&l, "failed", o->failed);
  if (o->lost > 0) (void)fs_control_add_u64(&l, "lost", o->lost);
  if (end && o->gone_sure) (void)fs_control_add_u64(&l, "gone", o->gone);
  if (end && o->gone_sure) (void)fs_control_add_u64(&l, "gone_nodes", o->gone_nodes);
  if (end) (void)fs_control_add_u64(&l, "end", 1);
  fs_say_line(&l);
}
