/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What COMMAND wrote below the mounts, at its end: the daemons count it, name it, and keep it on their nodes if --keep
 * says so (ipc/control.h, `finish`); the user is told what is about to be lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

#define FS_FINISH_NS (5 * FS_NS_PER_S) /* without a word from any daemon */
#define FS_NAMED 10u                   /* outputs that are named to the user */

static void on_output(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  struct fs_launch_outputs *o = &l->outputs;
  const char *name = fs_control_get(c, "name");
  if (!name) return;
  if (o->named == o->room) {
    size_t room = o->room ? 2 * o->room : 64;
    struct fs_launch_output *grown = realloc(o->output, room * sizeof(*grown));
    if (!grown) return;
    o->output = grown;
    o->room = room;
  }
  struct fs_launch_output *out = &o->output[o->named];
  *out = (struct fs_launch_output){.rank = (uint32_t)rank, .name = strdup(name)};
  fs_control_get_u64(c, "size", &out->size);
  if (out->name) o->named++;
}

static void on_outputs(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  struct fs_launch_node *node = &l->node[rank];
  const char *kept = fs_control_get(c, "kept"), *why = fs_control_get(c, "why");
  uint64_t end = 0;
  fs_control_get_u64(c, "files", &node->outputs);
  fs_control_get_u64(c, "bytes", &node->output_bytes);
  fs_control_get_u64(c, "failed", &node->outputs_failed);
  fs_control_get_u64(c, "end", &end);
  if (kept) snprintf(l->outputs.kept, sizeof(l->outputs.kept), "%s", kept);
  if (why) fs_shown(why, l->outputs.why, sizeof(l->outputs.why));
  node->finished = end != 0;
}

void fs_outputs_line_in(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  if (strcmp(c->verb, "output") == 0) on_output(l, rank, c);
  if (strcmp(c->verb, "outputs") == 0) on_outputs(l, rank, c);
}

static bool all_finished(const struct fs_launch *l) {
  for (uint32_t i = 0; i < l->nodes; i++)
    if (!l->node[i].finished && !l->node[i].dead && !l->node[i].bye) return false;
  return true;
}

static fs_err ask_to_finish(struct fs_launch *l) {
  struct fs_control_line line;
  fs_err err = fs_control_begin(&line, "finish");
  if (err == 0) err = fs_control_add_u64(&line, "names", l->opt.report ? UINT32_MAX : FS_NAMED);
  if (err == 0 && l->opt.keep) err = fs_control_add_u64(&line, "keep", 1);
  if (err == 0) err = fs_control_end(&line);
  return err == 0 ? fs_control_send(l, &line) : err;
}

static void add_up(struct fs_launch *l) {
  for (uint32_t i = 0; i < l->nodes; i++) {
    l->outputs.files += l->node[i].outputs;
    l->outputs.bytes += l->node[i].output_bytes;
    l->outputs.failed += l->node[i].outputs_failed;
  }
}

/* A signal that comes meanwhile ends the wait. */
void fs_outputs_finish(struct fs_launch *l) {
  if (l->opt.read_only || l->daemons_ended || l->out.fd < 0 || ask_to_finish(l) < 0) return;
  l->progress_ns = fs_now_ns();
  while (!all_finished(l) && !l->daemons_ended && l->out.fd >= 0 && l->signals_late == 0) {
    uint64_t now = fs_now_ns();
    if (now - l->progress_ns > FS_FINISH_NS) break;
    fs_events_step(l, now + FS_NS_PER_S / 20);
    fs_daemons_look(l);
  }
  add_up(l);
  for (uint32_t i = 0; i < l->nodes; i++)
    if (l->node[i].ready && !l->node[i].finished)
      fs_warn(l, "node %u (%s) does not tell of its outputs: they are lost", i, l->node[i].host);
}

/* The first names, as "a, b, c and 4 more". */
static void names_text(const struct fs_launch_outputs *o, char *text, size_t size) {
  char shown[512];
  size_t n = 0, named = 0;
  text[0] = '\0';
  for (; named < o->named && named < FS_NAMED; named++) {
    int put = snprintf(text + n, size - n, "%s%s", named > 0 ? ", " : "",
                       fs_shown(o->output[named].name, shown, sizeof(shown)));
    if (put < 0 || (size_t)put >= size - n) break;
    n += (size_t)put;
  }
  text[n] = '\0';
  if (named > 0 && o->files > named)
    snprintf(text + n, size - n, " and %llu more", (unsigned long long)(o->files - named));
}

void fs_outputs_tell(const struct fs_launch *l, FILE *out) {
  const struct fs_launch_outputs *o = &l->outputs;
  char size[32], names[8192], shown[512];
  if (o->files == 0) return;
  names_text(o, names, sizeof(names));
  fprintf(out, "fs-launch: %llu output%s (%s) ", (unsigned long long)o->files, o->files == 1 ? "" : "s",
          fs_format_size(o->bytes, size, sizeof(size)));
  if (!l->opt.keep)
    fprintf(out, "%s lost (keep with --keep): %s\n", o->files == 1 ? "is" : "are", names);
  else
    fprintf(out, "kept in %s on each node: %s\n", fs_shown(o->kept, shown, sizeof(shown)), names);
  if (o->failed > 0)
    fprintf(out, "fs-launch: %llu of them could not be kept and %s lost: %s\n", (unsigned long long)o->failed,
            o->failed == 1 ? "is" : "are", o->why);
}
