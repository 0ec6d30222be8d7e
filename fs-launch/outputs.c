/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles what COMMAND wrote below the mounts, after its end. The daemons count it, name it, and
 * keep it on their nodes with --keep (ipc/control.h, `finish`). The user is told what will be lost.
 * One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/local.h"
#include "launch.h"

#define FS_FINISH_NS (5 * FS_NS_PER_S) /* silence of all daemons */
#define FS_HEIR_NS (6 * FS_NS_PER_S)   /* time in which the others notice a daemon's end */
#define FS_NAMED 10u                   /* outputs that are named to the user, */
#define FS_NAMES 8192u                 /* in this many bytes */
#define FS_REASONS 16u                 /* reasons of one node why outputs could not be copied */

static struct fs_launch_output *room_for(struct fs_launch_output **list, size_t named, size_t *room) {
  if (named == *room) {
    size_t more = *room ? 2 * *room : 64;
    struct fs_launch_output *grown = realloc(*list, more * sizeof(*grown));
    if (!grown) return NULL;
    *list = grown;
    *room = more;
  }
  return &(*list)[named];
}

static void on_output(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  struct fs_launch_outputs *o = &l->outputs;
  const char *name = fs_control_get(c, "name");
  bool gone = fs_control_get(c, "gone") != NULL;
  size_t *named = gone ? &o->gone_named : &o->named;
  struct fs_launch_output *out =
      name ? room_for(gone ? &o->gone_output : &o->output, *named, gone ? &o->gone_room : &o->room) : NULL;
  if (!out) return;
  const char *why = fs_control_get(c, "why");
  *out = (struct fs_launch_output){
      .rank = (uint32_t)rank, .name = strdup(name), .why = why ? strndup(why, sizeof(o->failure->why) - 1) : NULL};
  fs_control_get_u64(c, "size", &out->size);
  if (out->name) ++*named;
}

/* Returns the failure of this node and reason. The node's last report counts. */
static struct fs_launch_failure *failure_of(struct fs_launch *l, uint32_t rank, const char *why) {
  struct fs_launch_outputs *o = &l->outputs;
  size_t of_rank = 0;
  for (size_t i = 0; i < o->failures; i++) {
    if (o->failure[i].rank != rank) continue;
    if (strncmp(o->failure[i].why, why, sizeof(o->failure->why) - 1) == 0) return &o->failure[i];
    of_rank++;
  }
  struct fs_launch_failure *grown = realloc(o->failure, (o->failures + 1) * sizeof(*grown));
  if (grown) o->failure = grown;
  if (!grown || of_rank == FS_REASONS) return NULL;
  grown[o->failures] = (struct fs_launch_failure){.rank = rank};
  snprintf(grown[o->failures].why, sizeof(grown->why), "%s", why);
  return &grown[o->failures++];
}

static void on_failed(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  const char *why = fs_control_get(c, "why");
  struct fs_launch_failure *f = why ? failure_of(l, (uint32_t)rank, why) : NULL;
  if (!f) return;
  fs_control_get_u64(c, "failed", &f->failed);
  fs_control_get_u64(c, "unkept", &f->unkept);
  fs_control_get_u64(c, "lost", &f->lost);
  fs_control_get_u64(c, "others", &f->others);
  f->others = FS_MIN(f->others, f->failed);
}

static void on_outputs(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  struct fs_launch_node *node = &l->node[rank];
  const char *kept = fs_control_get(c, "kept");
  uint64_t end = 0;
  fs_control_get_u64(c, "files", &node->outputs);
  fs_control_get_u64(c, "bytes", &node->output_bytes);
  fs_control_get_u64(c, "failed", &node->outputs_failed);
  fs_control_get_u64(c, "lost", &node->outputs_lost);
  fs_control_get_u64(c, "staged", &node->outputs_staged);
  if (fs_control_get_u64(c, "gone", &node->outputs_gone) == 0) node->gone_known = true;
  fs_control_get_u64(c, "gone_nodes", &node->gone_nodes);
  fs_control_get_u64(c, "done", &node->out_done);
  fs_control_get_u64(c, "total", &node->out_total);
  fs_control_get_u64(c, "dirs", &node->output_dirs);
  fs_control_get_u64(c, "links", &node->output_links);
  fs_control_get_u64(c, "end", &end);
  if (kept) snprintf(l->outputs.kept, sizeof(l->outputs.kept), "%s", kept);
  node->finished = end != 0;
}

/* A node has what another one's programs wrote; it may have been done with its own. */
static void on_successor(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  uint64_t of = l->nodes, pending = 0;
  fs_control_get_u64(c, "of", &of);
  fs_control_get_u64(c, "pending", &pending);
  if (of < l->nodes) l->node[of].inherited = true;
  if (pending != 0) l->node[rank].finished = false;
}

void fs_outputs_line_in(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  if (strcmp(c->verb, "wrote") == 0) {
    l->outputs.any = true;
    fs_outputs_first(l);
  }
  if (strcmp(c->verb, "output") == 0) on_output(l, rank, c);
  if (strcmp(c->verb, "failed") == 0) on_failed(l, rank, c);
  if (strcmp(c->verb, "outputs") == 0) on_outputs(l, rank, c);
  if (strcmp(c->verb, "successor") == 0) on_successor(l, rank, c);
}

/* One that has just died: the node that has its outputs' replicas is about to find out. */
static bool has_successor(const struct fs_launch *l, const struct fs_launch_node *n) {
  return l->opt.output_replicas > 0 && l->nodes > 1 && !n->inherited && fs_now_ns() - n->dead_ns < FS_HEIR_NS;
}

static bool all_finished(const struct fs_launch *l) {
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    if (!n->finished && !n->bye && (!n->dead || has_successor(l, n))) return false;
  }
  return true;
}

static fs_err ask_to_finish(struct fs_launch *l) {
  struct fs_control_line line;
  fs_err err = fs_control_begin(&line, "finish");
  if (err == 0) err = fs_control_add_u64(&line, "names", l->opt.report ? UINT32_MAX : FS_NAMED);
  if (err == 0 && (l->opt.keep || l->in_place)) err = fs_control_add_u64(&line, "keep", 1);
  if (err == 0 && l->opt.stage_out) err = fs_control_add_u64(&line, "stage", 1);
  if (err == 0) err = fs_control_end(&line);
  return err == 0 ? fs_control_send(l, &line) : err;
}

static void add_up(struct fs_launch *l) {
  for (uint32_t i = 0; i < l->nodes; i++) {
    l->outputs.files += l->node[i].outputs;
    l->outputs.bytes += l->node[i].output_bytes;
    l->outputs.failed += l->node[i].outputs_failed;
    l->outputs.lost += l->node[i].outputs_lost;
    l->outputs.staged += l->node[i].outputs_staged;
    l->outputs.dirs += l->node[i].output_dirs;
    l->outputs.links += l->node[i].output_links;
    l->outputs.gone += l->node[i].outputs_gone;
  }
}

/* Shows the progress of copying. */
static void show_copying(struct fs_launch *l) {
  uint64_t done = 0, total = 0;
  char a[32], b[32];
  if (!l->opt.stage_out || !fs_progress_due(l)) return;
  for (uint32_t i = 0; i < l->nodes; i++) {
    done += l->node[i].out_done;
    total += l->node[i].out_total;
  }
  if (total == 0) return;
  fs_progress("staging out: %3.0f%%  %s of %s", 100.0 * (double)done / (double)total,
              fs_format_size(done, a, sizeof(a)), fs_format_size(total, b, sizeof(b)));
}

static void cancel(struct fs_launch *l) {
  struct fs_control_line line;
  fs_say("staging out is broken off: what is left is kept on the nodes");
  if (fs_control_begin(&line, "cancel") == 0 && fs_control_end(&line) == 0) fs_control_send(l, &line);
}

/*
 * Returns true if the wait should end. The first signal does not end copying unless a signal has
 * ended COMMAND. The signal that ends copying makes the daemons keep the rest, and one more ends
 * the wait.
 */
static bool interrupted(struct fs_launch *l, bool by_signal, unsigned *heard) {
  unsigned patience = by_signal ? 0 : 1, now = l->signals_late;
  if (!l->opt.stage_out) return now > 0;
  for (; *heard < now; ++*heard) {
    if (*heard == patience) cancel(l);
    if (*heard < patience) fs_say("outputs are still being staged out; a second interrupt breaks it off");
  }
  return now > patience + 1;
}

/* Returns true if a node may have outputs and does not report them. */
static bool is_silent(const struct fs_launch *l, const struct fs_launch_node *n) {
  return l->outputs.any && n->ready && !n->finished;
}

/* Returns true if the other nodes know which outputs the silent nodes had. They may not if two went
   together. A node that reported before a silent node died has not counted its outputs. */
static bool all_known(const struct fs_launch *l, unsigned silent) {
  bool known = silent < l->nodes;
  for (uint32_t i = 0; i < l->nodes; i++)
    if (l->node[i].finished && (!l->node[i].gone_known || l->node[i].gone_nodes < silent)) known = false;
  return known && silent == 1;
}

/* Names the nodes that do not report their outputs. Returns true if outputs may be lost that no
   node names. */
static bool tell_of_silent(struct fs_launch *l) {
  unsigned silent = 0, lost = 0;
  for (uint32_t i = 0; i < l->nodes; i++) silent += is_silent(l, &l->node[i]);
  if (silent == 0) l->outputs.gone = 0; /* a node that was thought dead has reported them */
  bool known = all_known(l, silent), lost_before = false;
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    if (!is_silent(l, n)) continue;
    fs_warn(l, "node %u (%s) does not tell of its outputs: %s", i, n->host,
            n->inherited && lost_before ? "what was closed or synced is the next node's, if that still had it all"
            : n->inherited              ? "what was closed or synced is the next node's"
            : !known              ? l->opt.stage_out ? "what was not staged out is lost" : "any that it had are lost"
            : l->outputs.gone > 0 ? "those that are lost are named"
            : l->opt.stage_out    ? "what was closed or synced had been staged out"
                                  : "none of them is known to be lost");
    lost += !n->inherited || lost_before; /* if two died, the second may not have replicated the
                                             first's */
    lost_before = true;
  }
  if (lost > 0 && !known && (l->opt.stage_out || l->opt.keep))
    fs_warn(l, "nobody is left who knows whether all outputs of %s are there: so the status is that of a failure",
            silent == 1 ? "that node" : "those nodes");
  return lost > 0 && !known;
}

int fs_outputs_finish(struct fs_launch *l, int status) {
  bool by_signal = fs_command_interrupted(l);
  unsigned heard = 0;
  bool told = false;
  if (l->opt.read_only) return status;
  if (l->opt.stage_in) l->outputs.any = true;
  bool asked = !l->daemons_ended && l->out.fd >= 0 && ask_to_finish(l) == 0;
  if (asked) {
    l->progress_ns = l->bar_ns = fs_now_ns();
    while (!all_finished(l) && !l->daemons_ended && l->out.fd >= 0 && !interrupted(l, by_signal, &heard)) {
      uint64_t now = fs_now_ns();
      if (now - l->progress_ns > FS_FINISH_NS) break;
      fs_daemons_signal(l, FS_SIGNAL_FINISH, &told);
      fs_events_step(l, now + FS_NS_PER_S / 20);
      fs_daemons_look(l);
      show_copying(l);
    }
    fs_bar(NULL);
  }
  fs_daemons_last_words(l, !asked);
  add_up(l);
  bool unknown = tell_of_silent(l);
  bool wanted = l->opt.stage_out || l->opt.keep;
  l->outputs.missing = wanted && (l->outputs.gone > 0 || unknown);
  uint64_t badly = l->in_place ? l->outputs.lost : l->outputs.failed; /* what is kept instead is
                                                                         reported, and exists */
  l->outputs.unsaved =
      wanted && (l->outputs.missing || badly > 0 || l->outputs.lost > 0 || (l->outputs.any && !all_finished(l)));
  bool failed = l->outputs.missing || (wanted && badly > 0);
  return status == 0 && failed ? FS_EXIT_FAILED : status;
}

/* Writes the first names, as "a, b, c and 4 more": of all, or of those with this reason. */
static void names_text(const struct fs_launch_output *list, size_t n_list, const char *why, uint64_t of, char *text,
                       size_t size) {
  size_t n = 0, named = 0;
  text[0] = '\0';
  for (size_t i = 0; i < n_list && named < FS_NAMED; i++) {
    const struct fs_launch_output *out = &list[i];
    if (why && (!out->why || strcmp(out->why, why) != 0)) continue;
    int put = snprintf(text + n, size - n, "%s%s", named > 0 ? ", " : "", out->name);
    if (put < 0 || (size_t)put >= size - n) break;
    n += (size_t)put;
    named++;
  }
  text[n] = '\0';
  if (named > 0 && of > named) snprintf(text + n, size - n, " and %llu more", (unsigned long long)(of - named));
}

static const char *are(uint64_t n) {
  return n == 1 ? "is" : "are";
}

bool fs_outputs_reason(const struct fs_launch_outputs *o, size_t at, struct fs_launch_failure *sum) {
  const char *why = o->failure[at].why;
  for (size_t i = 0; i < at; i++)
    if (strcmp(o->failure[i].why, why) == 0) return false;
  *sum = o->failure[at];
  for (size_t i = at + 1; i < o->failures; i++) {
    if (strcmp(o->failure[i].why, why) != 0) continue;
    sum->failed += o->failure[i].failed;
    sum->unkept += o->failure[i].unkept;
    sum->lost += o->failure[i].lost;
    sum->others += o->failure[i].others;
  }
  return true;
}

static void tell_not_staged(const struct fs_launch *l, const struct fs_launch_failure *f) {
  const struct fs_launch_outputs *o = &l->outputs;
  char names[FS_NAMES], others[64] = "", kept[PATH_MAX + 64] = "";
  names_text(o->output, o->named, f->why, f->failed - f->others, names, sizeof(names));
  if (f->others > 0)
    snprintf(others, sizeof(others), ", of them %llu %s,", (unsigned long long)f->others,
             f->others == 1 ? "directory or symlink" : "directories or symlinks");
  if (f->failed > f->unkept)
    snprintf(kept, sizeof(kept), " and %s kept in %s on each node", are(f->failed - f->unkept), o->kept);
  fs_say("%llu%s could not be staged out (%s)%s%s%s", (unsigned long long)f->failed, others, f->why, kept,
         names[0] ? ": " : "", names);
}

/* Tells which outputs should have been copied or kept and were not: a line for each reason. */
static void tell_failed(const struct fs_launch *l) {
  const struct fs_launch_outputs *o = &l->outputs;
  struct fs_launch_failure f;
  for (size_t i = 0; l->opt.stage_out && i < o->failures; i++)
    if (fs_outputs_reason(o, i, &f) && f.failed > 0) tell_not_staged(l, &f);
  for (size_t i = 0; i < o->failures; i++)
    if (fs_outputs_reason(o, i, &f) && f.lost > 0)
      fs_say("%llu of them could not be kept: %s", (unsigned long long)f.lost, f.why);
}

/* Writes "3 outputs (12 KiB)", or if the job made no outputs, "2 directories and 1 symlink". */
static void made_text(const struct fs_launch_outputs *o, char *text, size_t size) {
  char bytes[32];
  if (o->files > 0) {
    snprintf(text, size, "%llu output%s (%s)", (unsigned long long)o->files, o->files == 1 ? "" : "s",
             fs_format_size(o->bytes, bytes, sizeof(bytes)));
    return;
  }
  int n = 0;
  text[0] = '\0';
  if (o->dirs > 0)
    n = snprintf(text, size, "%llu director%s%s", (unsigned long long)o->dirs, o->dirs == 1 ? "y" : "ies",
                 o->links > 0 ? " and " : "");
  if (o->links > 0)
    snprintf(text + n, size - (size_t)n, "%llu symlink%s", (unsigned long long)o->links, o->links == 1 ? "" : "s");
}

/* Tells which outputs were lost with their nodes. */
static void tell_gone(const struct fs_launch *l) {
  const struct fs_launch_outputs *o = &l->outputs;
  char names[FS_NAMES];
  if (o->gone == 0) return;
  names_text(o->gone_output, o->gone_named, NULL, o->gone, names, sizeof(names));
  fs_say("%llu output%s %s lost with %s: %s", (unsigned long long)o->gone, o->gone == 1 ? "" : "s", are(o->gone),
         o->gone == 1 ? "its node" : "their nodes", names);
  if (l->opt.stage_out) fs_say("what %s has of them was copied before", l->stage_out);
}

/* Tells where the outputs of nodes that are gone may still be, if their disks exist. */
static void tell_left(const struct fs_launch *l) {
  char path[2 * PATH_MAX], node[32] = "";
  for (uint32_t i = 0; l->outputs.missing && i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    if (!is_silent(l, n) || n->inherited) continue;
    if (l->opt.emulate > 1) snprintf(node, sizeof(node), "-node%u", i);
    snprintf(path, sizeof(path), "%s/fanstore%s/" FS_LOCAL_BACKING "%s-%u/out", l->local_dir, node, l->job, i);
    if (fs_host_is_here(n->host) && access(path, F_OK) < 0) continue;
    fs_say("what is left of them on %s is in %s, until fs-launch clean --outputs", n->host, path);
  }
}

static void tell_staged(const struct fs_launch *l, const char *made) {
  const struct fs_launch_outputs *o = &l->outputs;
  bool others = l->in_place && o->staged + o->failed < o->files && o->kept[0];
  fs_say("%s written, %llu staged out to %s%s%s%s", made, (unsigned long long)o->staged, l->stage_out,
         others ? ", the others kept in " : "", others ? o->kept : "", others ? " on each node" : "");
}

void fs_outputs_tell(const struct fs_launch *l) {
  const struct fs_launch_outputs *o = &l->outputs;
  char made[128], names[FS_NAMES];
  tell_gone(l);
  tell_left(l);
  if (o->unsaved && !o->missing) fs_say("what is not saved stays in %s, until fs-launch clean --outputs", l->local_dir);
  if (o->files + o->dirs + o->links == 0) return;
  bool one = (o->files > 0 ? o->files : o->dirs + o->links) == 1;
  names_text(o->output, o->named, NULL, o->files, names, sizeof(names));
  made_text(o, made, sizeof(made));
  if (l->opt.stage_out && o->files > 0)
    tell_staged(l, made);
  else if (l->opt.stage_out)
    fs_say("%s made, %sstaged out to %s", made, o->failed > 0 ? "not all " : "", l->stage_out);
  else if (!l->opt.keep)
    fs_say("%s %s lost (keep with --keep)%s%s", made, one ? "is" : "are", o->files > 0 ? ": " : "", names);
  else
    fs_say("%s kept in %s on each node%s%s", made, o->kept, o->files > 0 ? ": " : "", names);
  tell_failed(l);
}
