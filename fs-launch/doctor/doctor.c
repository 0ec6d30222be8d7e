/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch doctor FILE... and fs-launch --doctor COMMAND: prints each thing that would bypass the
 * mount as one line on standard output, then a summary. Exit status 0: nothing found; 1: something
 * found; 2: a file, or Zydis, is missing. Also prints the short warning before a command that cannot be
 * preloaded. doctor.h names the parts. Single-threaded.
 */
#include <fts.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../launch.h"
#include "doctor.h"

#define FS_EXIT_FOUND 1

void fs_doctor_tell(struct fs_doctor *d, enum fs_verdict v, const char *path, const char *format, ...) {
  static const char *const word[] = {"bypass", "maybe", "note"};
  char text[FS_SAY_LINE], name[PATH_MAX];
  va_list ap;
  va_start(ap, format);
  fs_vline(text, sizeof(text), format, ap);
  va_end(ap);
  d->told[v]++;
  printf("%-6s  %s: %s\n", word[v], fs_one_line(path, name, sizeof(name)), text);
}

static int verdict(struct fs_doctor *d, bool missing) {
  if (d->blind)
    fs_say("libZydis 4 is not here, or was not when fs-launch was built, so no code was looked at: install it (Debian "
           "12: libzydis-dev)");
  missing |= d->blind;
  char scripts[64] = "";
  unsigned found = d->told[FS_BYPASS] + d->told[FS_MAYBE];
  if (d->scripts > 0)
    snprintf(scripts, sizeof(scripts), " (of %u script%s only the interpreter)", d->scripts,
             d->scripts == 1 ? "" : "s");
  printf("%s: %u ELF file%s looked at%s, %u would bypass the mount, %u may\n",
         missing ? "incomplete"
         : found ? "found"
                 : "ok",
         d->objects, d->objects == 1 ? "" : "s", scripts, d->told[FS_BYPASS], d->told[FS_MAYBE]);
  fs_objects_free(d);
  if (fflush(stdout) != 0) return FS_EXIT_FAILED;
  return missing ? FS_EXIT_USAGE : found ? FS_EXIT_FOUND : 0;
}

/* ---- a command ---- */

/* Examines the other preloaded libraries. Ours comes before them. */
static void preloaded(struct fs_doctor *d) {
  const char *list = getenv("LD_PRELOAD");
  for (size_t n; list && *list; list += n + (list[n] != '\0')) {
    char path[PATH_MAX];
    struct fs_object *o;
    n = strcspn(list, ": ");
    if (n == 0 || n >= sizeof(path)) continue;
    snprintf(path, sizeof(path), "%.*s", (int)n, list);
    if (strstr(path, "libfanstore.so")) continue;
    if (!strchr(path, '/') || fs_object_open(d, path, NULL, &o) < 0 || !o) continue;
    fs_doctor_tell(d, FS_NOTE, path, "preloaded too: it sees only the calls that libfanstore.so passes on");
    fs_doctor_object(d, o);
    fs_object_closure(d, o);
  }
  if (getenv("LD_AUDIT"))
    fs_doctor_tell(d, FS_NOTE, "LD_AUDIT", "auditing libraries run in a name space without libfanstore.so");
}

int fs_doctor_run(char **command, bool as_is) {
  struct fs_doctor d = {.libraries = true, .command = true, .as_is = as_is};
  preloaded(&d);
  fs_err err = fs_doctor_command(&d, command);
  if (err < 0) fs_say("%s: %s", command[0], strerror(-err));
  return verdict(&d, err < 0);
}

/* ---- the warning at the start ---- */

struct other_mpi {
  char file[PATH_MAX], library[512];
};

/* Examines mpi4py in a directory. Returns -1 if there is none, 1 if it needs another MPI, 0 if it
   fits or has a module for each MPI. */
static int look_at_mpi4py(struct fs_doctor *d, struct other_mpi *other, const char *dir, const char *below) {
  char pattern[2 * PATH_MAX];
  int n = snprintf(pattern, sizeof(pattern), "%s%s/mpi4py/MPI.*so", dir, below), found = -1;
  glob_t g;
  if (n < 0 || (size_t)n >= sizeof(pattern) || glob(pattern, 0, NULL, &g) != 0) return -1;
  for (size_t i = 0; i < g.gl_pathc; i++) {
    struct fs_object *o = NULL;
    if (fs_object_open(d, g.gl_pathv[i], NULL, &o) < 0 || !o) continue;
    const char *needs = fs_doctor_other_mpi(o);
    found = needs && found != 0;
    if (!needs) continue;
    snprintf(other->file, sizeof(other->file), "%s", g.gl_pathv[i]);
    snprintf(other->library, sizeof(other->library), "%s", needs);
  }
  globfree(&g);
  return found;
}

/* Examines the mpi4py that a Python at this path would import from the usual places. Returns true
   if it needs another MPI. */
static bool python_of_other_mpi(struct fs_doctor *d, struct other_mpi *other, const char *path) {
  const char *name = strrchr(path, '/'), *list = getenv("PYTHONPATH"), *home = getenv("HOME");
  int found = -1;
  if (!name || strncmp(name, "/python", strlen("/python")) != 0) return false;
  for (size_t n; found < 0 && list && *list; list += n + (list[n] != '\0')) {
    char dir[PATH_MAX];
    n = strcspn(list, ":");
    if (n == 0 || n >= sizeof(dir)) continue;
    snprintf(dir, sizeof(dir), "%.*s", (int)n, list);
    found = look_at_mpi4py(d, other, dir, "");
  }
  char bin[PATH_MAX];
  snprintf(bin, sizeof(bin), "%.*s", (int)(name - path), path);
  if (found < 0 && home) found = look_at_mpi4py(d, other, home, "/.local/lib/python3*/site-packages");
  if (found < 0) found = look_at_mpi4py(d, other, bin, "/../lib/python3*/site-packages");
  if (found < 0) found = look_at_mpi4py(d, other, bin, "/../lib/python3/dist-packages");
  return found == 1;
}

/* Warns if COMMAND itself, or what its Python imports, needs another MPI than that of --np. */
static void warn_of_mpi(struct fs_doctor *d, const struct fs_object *o, const char *path) {
  const char *needs = fs_doctor_other_mpi(o);
  struct other_mpi other;
  if (!needs && !python_of_other_mpi(d, &other, path)) return;
  fs_say("warning: %s needs %s, of another MPI than the Open MPI that --np uses: each process is rank 0 of "
         "1; " FS_DOCTOR_MPI_HOW,
         needs ? path : other.file, needs ? needs : other.library);
}

void fs_doctor_warn(const struct fs_launch *l) {
  struct fs_doctor d = {0};
  struct fs_object *o = NULL;
  char path[PATH_MAX];
  const char *name, *why = fs_doctor_starts(l->opt.command, l->opt.env_as_is, &name);
  if (why) fs_say("warning: %s %s", name, why);
  if (why || !l->first_here || fs_find_command(l->opt.command[0], path, sizeof(path)) < 0) return;
  bool elf = fs_object_open(&d, path, NULL, &o) == 0 && o;
  if (elf && fs_doctor_hopeless(o))
    fs_say("warning: %s %s: it will not see the mounts (fs-launch --doctor tells more)", path, fs_doctor_hopeless(o));
  if (elf && l->opt.np > 0) warn_of_mpi(&d, o, path);
  fs_objects_free(&d);
}

/* ---- files and directories ---- */

static fs_err tree(struct fs_doctor *d, const char *path) {
  char *roots[] = {(char *)path, NULL};
  FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  if (!fts) return -errno;
  for (FTSENT *e; (e = fts_read(fts)) != NULL;) {
    struct fs_object *o;
    if (e->fts_info != FTS_F || fs_object_open(d, e->fts_path, NULL, &o) < 0 || !o) continue;
    if (o->elf.type == ET_EXEC || o->elf.type == ET_DYN) fs_doctor_object(d, o);
    fs_object_done(o); /* there may be more files than a process can map */
  }
  fts_close(fts);
  return 0;
}

int fs_doctor_files(int argc, char **argv) {
  struct fs_doctor d = {0};
  bool missing = false;
  int first = fs_options_parse_doctor(argc, argv);
  if (first < 0) return FS_EXIT_USAGE;
  for (int i = first; i < argc; i++) {
    struct stat st;
    fs_err err = stat(argv[i], &st) < 0 ? -errno : 0;
    d.libraries = err == 0 && !S_ISDIR(st.st_mode);
    if (err == 0) err = d.libraries ? fs_doctor_path(&d, argv[i]) : tree(&d, argv[i]);
    if (err == 0) continue;
    fs_say("%s: %s", argv[i], strerror(-err));
    missing = true;
  }
  return verdict(&d, missing);
}
