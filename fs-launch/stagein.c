/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --stage-in: when all daemons serve, each makes the names of its share of the files there
 * (ipc/control.h, `stagein`). One line tells how many. Names that were left out are a warning.
 * Called by start.c.
 */
#include <stdio.h>
#include <string.h>

#include "launch.h"

static void example(const struct fs_control *c, const char *key, char *out, size_t size) {
  const char *name = fs_control_get(c, key);
  if (name && out[0] == '\0') snprintf(out, size, "%s", name);
}

void fs_stage_in_line(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  struct fs_launch_node *node = &l->node[rank];
  uint64_t end = 0;
  if (strcmp(c->verb, "stagein") != 0) return;
  fs_control_get_u64(c, "files", &node->in_files);
  fs_control_get_u64(c, "bytes", &node->in_bytes);
  fs_control_get_u64(c, "dataset", &node->in_dataset);
  fs_control_get_u64(c, "odd", &node->in_odd);
  fs_control_get_u64(c, "end", &end);
  example(c, "dataset_name", l->in_dataset, sizeof(l->in_dataset));
  example(c, "odd_name", l->in_odd, sizeof(l->in_odd));
  example(c, "odd_why", l->in_why, sizeof(l->in_why));
  node->staged_in = end != 0;
}

static void show(struct fs_launch *l) {
  uint64_t files = 0, bytes = 0;
  char size[32];
  if (!fs_progress_due(l)) return;
  for (uint32_t i = 0; i < l->nodes; i++) {
    files += l->node[i].in_files;
    bytes += l->node[i].in_bytes;
  }
  fs_progress("staging in: %llu file%s (%s) on %u node%s", (unsigned long long)files, files == 1 ? "" : "s",
              fs_format_size(bytes, size, sizeof(size)), l->nodes, l->nodes == 1 ? "" : "s");
}

static void tell(struct fs_launch *l) {
  uint64_t files = 0, bytes = 0, dataset = 0, odd = 0;
  char size[32];
  for (uint32_t i = 0; i < l->nodes; i++) {
    files += l->node[i].in_files;
    bytes += l->node[i].in_bytes;
    dataset += l->node[i].in_dataset;
    odd += l->node[i].in_odd;
  }
  fs_say("%llu file%s (%s) staged in from %s", (unsigned long long)files, files == 1 ? "" : "s",
         fs_format_size(bytes, size, sizeof(size)), l->stage_in);
  if (dataset > 0)
    fs_warn(l, "--stage-in: the dataset has %llu of the names, which stay its own: %s", (unsigned long long)dataset,
            l->in_dataset);
  if (odd > 0)
    fs_warn(l, "--stage-in: %llu could not be taken in: %s (%s)", (unsigned long long)odd, l->in_odd, l->in_why);
}

int fs_stage_in(struct fs_launch *l) {
  struct fs_control_line line;
  if (!l->opt.stage_in) return 0;
  fs_err err = fs_control_begin(&line, "stagein");
  if (err == 0) err = fs_control_end(&line);
  if (err == 0) err = fs_control_send(l, &line);
  l->progress_ns = l->bar_ns = fs_now_ns();
  int status = fs_daemons_wait(l, offsetof(struct fs_launch_node, staged_in), show);
  if (status == 0) tell(l);
  return status;
}
