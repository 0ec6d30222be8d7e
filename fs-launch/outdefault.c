/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses where outputs go if no option says so (docs/outputs.md). If the mount is
 * the directory that the dataset was packed from, and that exists, they go there. Else they stay on
 * the nodes, like with --keep. The first output tells the user at once, in one line. Called by
 * main.c and outputs.c.
 */
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "launch.h"

/* Returns true if the directory is the dataset's source itself. A mount of a job around this one
   has marks. */
static bool is_own_source(struct fs_launch *l) {
  const struct fs_launch_dataset *d = &l->dataset[0];
  struct stat st;
  struct statfs fs;
  if (lstat(d->mount, &st) < 0 || !S_ISDIR(st.st_mode)) return false;
  l->source_inode = st.st_ino;
  return l->opt.datasets == 1 && !l->opt.stage_in && strcmp(d->mount, d->manifest.mount) == 0 &&
         access(d->mount, R_OK | W_OK | X_OK) == 0 && statfs(d->mount, &fs) == 0 && fs.f_type != SQUASHFS_MAGIC;
}

void fs_outputs_default(struct fs_launch *l) {
  struct fs_launch_options *o = &l->opt;
  if (o->read_only || o->keep || o->discard || o->stage_out) return;
  l->by_default = true;
  l->in_place = is_own_source(l);
  o->keep = !l->in_place;
  if (!l->in_place) return;
  o->stage_out = l->dataset[0].mount;
  snprintf(l->stage_out, sizeof(l->stage_out), "%s", o->stage_out);
}

void fs_outputs_first(struct fs_launch *l) {
  static bool told;
  if (told || !l->by_default) return;
  told = true;
  if (l->in_place)
    fs_say("COMMAND writes below the mount: its outputs are copied to the source, %s "
           "(--stage-out DIR has them in DIR, --discard drops them)",
           l->stage_out);
  else
    fs_say("COMMAND writes below the mount: its outputs will be kept in %s/fanstore-outputs/%s on each node "
           "(--stage-out DIR has them in DIR, --discard drops them)",
           l->local_dir, l->job);
}
