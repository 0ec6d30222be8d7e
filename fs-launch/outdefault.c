/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where outputs go if no option says so (docs/output-files.md, section 11): they are kept on the nodes, as by --keep.
 * The first output tells the user, at once, in one line. Called by main.c and outputs.c.
 */
#include "launch.h"

void fs_outputs_default(struct fs_launch *l) {
  struct fs_launch_options *o = &l->opt;
  if (o->read_only || o->keep || o->discard || o->stage_out) return;
  l->by_default = true;
  o->keep = true;
}

void fs_outputs_first(struct fs_launch *l) {
  static bool told;
  char shown[512];
  if (told || !l->by_default) return;
  told = true;
  fs_say("COMMAND writes below the mount: its outputs will be kept in %s/fanstore-outputs/%s on each node "
         "(--stage-out DIR has them in DIR, --discard drops them)",
         fs_shown(l->local_dir, shown, sizeof(shown)), l->job);
}
