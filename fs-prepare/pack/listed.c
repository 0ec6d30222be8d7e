/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks the names of --files-from, in one thread, instead of all that SOURCE has. */
#include <string.h>

#include "walk.h"

/* Visits one component of a name of --files-from. Returns 1 if names may lie below it, 0, or a
   negative errno. */
static int visit_component(struct fs_walker *w, const char *path, bool last) {
  FS_AUTO_FREE char *whole = fs_walk_in_dataset(w->walk, path);
  if (whole == NULL) return -ENOMEM;
  const struct fs_walk_task in = {.depth = (uint16_t)(fs_path_depth(whole) - 1),
                                  .replicate = fs_globs_match_above(&w->walk->o->replicate, whole)};
  const size_t items = w->items.n;
  fs_err err = fs_walk_visit(w, w->walk->root, path, path, &in);
  if (err < 0 || w->items.n == items) return err;
  if (S_ISDIR(w->items.item[items].mode)) return 1;
  return last ? 0 : fs_walk_add_problem(w, path, "is no directory, but --files-from names what is below it", false);
}

/*
 * Visits a name and the directories above it. Those that it shares with the name before it, in their
 * order, were visited. `stop` is the last path below which nothing can be visited.
 */
static fs_err visit_name(struct fs_walker *w, const char *before, const char *name, char stop[PATH_MAX]) {
  const size_t n = strlen(name), stopped = strlen(stop);
  size_t same = 0;
  if (n >= PATH_MAX) return fs_walk_add_problem(w, name, "has a path of more than 4095 bytes", false);
  if (stopped != 0 && strncmp(stop, name, stopped) == 0 && name[stopped] == '/') return 0;
  for (size_t i = 0; before[i] == name[i] && name[i] != '\0'; i++)
    if (name[i + 1] == '/' && (before[i + 1] == '/' || before[i + 1] == '\0')) same = i + 1;
  for (size_t at = same + 1; at <= n; at++) {
    if (name[at] != '/' && name[at] != '\0') continue;
    memcpy(stop, name, at);
    stop[at] = '\0';
    int more = visit_component(w, stop, at == n);
    if (more <= 0) return more;
  }
  stop[0] = '\0';
  return 0;
}

fs_err fs_walk_listed(struct fs_walker *w) {
  char stop[PATH_MAX] = "";
  struct fs_names names;
  fs_err err = fs_names_read(w->walk->o->files_from, w->walk->o->null, &names);
  for (size_t i = 0; i < names.n && err == 0; i++) {
    if (fs_prep_signal != 0) err = -EINTR;
    if (err == 0 && names.name[i][0] != '\0') err = visit_name(w, i != 0 ? names.name[i - 1] : "", names.name[i], stop);
  }
  fs_names_free(&names);
  return err;
}
