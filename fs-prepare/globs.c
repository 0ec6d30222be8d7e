/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of shell patterns, which options collect. One thread adds; any thread may match. */
#include <stdlib.h>
#include <string.h>

#include "prepare.h"

fs_err fs_globs_add(struct fs_globs *g, const char *command, const char *option, const char *value) {
  size_t n = strlen(value);
  while (n > 0 && value[n - 1] == '/') n--;
  if (n == 0) {
    fs_say("%s: --%s '%s': the pattern is empty", command, option, value);
    return -EINVAL;
  }
  char **more = realloc(g->glob, (g->n + 1) * sizeof *more);
  if (more != NULL) g->glob = more;
  char *copy = more != NULL ? strndup(value, n) : NULL;
  if (copy == NULL) {
    fs_say("%s: --%s: out of memory", command, option);
    return -EINVAL;
  }
  g->glob[g->n++] = copy;
  return 0;
}

bool fs_globs_match(const struct fs_globs *g, const char *path) {
  for (size_t i = 0; i < g->n; i++)
    if (fs_glob_match(g->glob[i], path)) return true;
  return false;
}

void fs_globs_free(struct fs_globs *g) {
  for (size_t i = 0; i < g->n; i++) free(g->glob[i]);
  free(g->glob);
  *g = (struct fs_globs){0};
}
