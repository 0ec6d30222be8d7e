/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the names of --files-from. The walk packs them and the directories above them. One
   thread. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack.h"

/* Reads a whole file of unknown size. */
static fs_err read_all(int fd, char **text, size_t *n) {
  size_t room = 64 << 10;
  *text = malloc(room + 1);
  for (*n = 0; *text != NULL;) {
    if (*n == room) {
      char *more = realloc(*text, room * 2 + 1);
      if (more == NULL) break;
      *text = more;
      room *= 2;
    }
    ssize_t got = read(fd, *text + *n, room - *n);
    if (got < 0 && errno == EINTR && fs_prep_signal == 0) continue;
    if (got < 0) return -errno;
    if (got == 0) return 0;
    *n += (size_t)got;
  }
  return -ENOMEM;
}

/* Removes "./", "//" and trailing slashes. Returns NULL, or what is wrong with the name. */
static const char *clean(char *name) {
  if (name[0] == '/') return "is absolute; give names below SOURCE";
  char *out = name;
  for (char *p = name; *p != '\0';) {
    size_t n = strcspn(p, "/");
    char *next = p + n + (p[n] == '/');
    if (n == 2 && p[0] == '.' && p[1] == '.') return "has '..'; give names below SOURCE";
    if (n > FS_NAME_MAX) return "has a component of more than 255 bytes";
    if (n != 0 && !(n == 1 && p[0] == '.')) {
      if (out != name) *out++ = '/';
      memmove(out, p, n);
      out += n;
    }
    p = next;
  }
  *out = '\0';
  return NULL;
}

static int by_name(const void *a, const void *b) {
  return fs_path_compare(*(char *const *)a, *(char *const *)b);
}

/* Splits the text, which ends with NUL, into clean names. */
static fs_err split(struct fs_names *names, const char *file, size_t n, char end) {
  size_t count = 1;
  for (size_t i = 0; i < n; i++) count += names->text[i] == end;
  names->name = malloc(count * sizeof *names->name);
  if (names->name == NULL) return -ENOMEM;
  for (char *p = names->text; p < names->text + n;) {
    char *stop = memchr(p, end, (size_t)(names->text + n - p));
    if (stop == NULL) stop = names->text + n;
    *stop = '\0';
    FS_AUTO_FREE char *as_given = strdup(p);
    if (as_given == NULL) return -ENOMEM;
    const char *what = strlen(p) != (size_t)(stop - p) ? "ends with NUL; give --null" : clean(p);
    if (what != NULL) {
      fs_say("%s: the name '%s' %s", file, as_given, what);
      return -EINVAL;
    }
    if (as_given[0] != '\0') names->name[names->n++] = p;
    p = stop + 1;
  }
  return 0;
}

fs_err fs_names_read(const char *file, bool null, struct fs_names *names) {
  *names = (struct fs_names){0};
  const bool standard = strcmp(file, "-") == 0;
  FS_AUTO_CLOSE int opened = standard ? -1 : fs_sys_openat(AT_FDCWD, file, O_RDONLY | O_CLOEXEC, 0);
  const int fd = standard ? STDIN_FILENO : opened;
  size_t n = 0;
  fs_err err = fd < 0 ? fd : read_all(fd, &names->text, &n);
  if (err < 0) {
    fs_say("--files-from %s: %s", file, strerror(-err));
    return err;
  }
  names->text[n] = '\0';
  err = split(names, standard ? "standard input" : file, n, null ? '\0' : '\n');
  if (err < 0) return err;
  qsort(names->name, names->n, sizeof *names->name, by_name);
  size_t kept = 0;
  for (size_t i = 0; i < names->n; i++)
    if (kept == 0 || strcmp(names->name[kept - 1], names->name[i]) != 0) names->name[kept++] = names->name[i];
  names->n = kept;
  return 0;
}

void fs_names_free(struct fs_names *names) {
  free(names->name);
  free(names->text);
  *names = (struct fs_names){0};
}
