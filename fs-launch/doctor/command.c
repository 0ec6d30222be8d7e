/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the files that a command would run: through PATH, the interpreters of scripts, and programs
 * that start another one (env, nice, mpirun, sudo). Called by doctor.c. Single-threaded.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../launch.h"
#include "doctor.h"

#define FS_SCRIPT_DEPTH 5 /* nested interpreters, like the kernel */

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* ---- programs that start another ---- */

#define CLEANS                                                                                                         \
  "starts the command with other rights and a cleaned environment, without LD_PRELOAD; run fs-launch inside it"
#define ELSEWHERE "runs the command on another host, without LD_PRELOAD; name the hosts to fs-launch (--hosts) instead"
#define CONTAINER                                                                                                      \
  "runs the command in a container, where libfanstore.so is not, without the job's environment; give it the options "  \
  "that fs-launch env --container prints (docs/containers.md)"
#define PARALLEL                                                                                                       \
  "may not pass LD_PRELOAD and FANSTORE_* on to other hosts; use fs-launch --np instead, or its option to export them"

static const struct {
  const char *name;
  enum fs_verdict verdict;
  const char *text; /* NULL: it passes the environment on */
} starters[] = {
    {"sudo", FS_BYPASS, CLEANS},
    {"su", FS_BYPASS, CLEANS},
    {"doas", FS_BYPASS, CLEANS},
    {"pkexec", FS_BYPASS, CLEANS},
    {"runuser", FS_BYPASS, CLEANS},
    {"systemd-run", FS_BYPASS, CLEANS},
    {"ssh", FS_BYPASS, ELSEWHERE},
    {"rsh", FS_BYPASS, ELSEWHERE},
    {"pdsh", FS_BYPASS, ELSEWHERE},
    {"sbatch", FS_MAYBE, PARALLEL},
    {"qsub", FS_BYPASS, ELSEWHERE},
    {"docker", FS_BYPASS, CONTAINER},
    {"podman", FS_BYPASS, CONTAINER},
    {"nerdctl", FS_BYPASS, CONTAINER},
    {"singularity", FS_BYPASS, CONTAINER},
    {"enroot", FS_BYPASS, CONTAINER},
    {"apptainer", FS_BYPASS, CONTAINER},
    {"shifter", FS_BYPASS, CONTAINER},
    {"bwrap", FS_MAYBE, CONTAINER},
    {"ch-run", FS_BYPASS, CONTAINER},
    {"flatpak", FS_BYPASS, CONTAINER},
    {"chroot", FS_BYPASS, CONTAINER},
    {"mpirun", FS_MAYBE, PARALLEL},
    {"mpiexec", FS_MAYBE, PARALLEL},
    {"orterun", FS_MAYBE, PARALLEL},
    {"prterun", FS_MAYBE, PARALLEL},
    {"mpiexec.hydra", FS_MAYBE, PARALLEL},
    {"srun", FS_MAYBE, PARALLEL},
    {"nohup", FS_NOTE, NULL},
    {"setsid", FS_NOTE, NULL},
    {"nice", FS_NOTE, NULL},
    {"ionice", FS_NOTE, NULL},
    {"timeout", FS_NOTE, NULL},
    {"stdbuf", FS_NOTE, NULL},
    {"time", FS_NOTE, NULL},
    {"taskset", FS_NOTE, NULL},
    {"numactl", FS_NOTE, NULL},
    {"chrt", FS_NOTE, NULL},
    {"strace", FS_NOTE, NULL},
    {"ltrace", FS_NOTE, NULL},
    {"xvfb-run", FS_NOTE, NULL},
    {"catchsegv", FS_NOTE, NULL},
    {"setarch", FS_NOTE, NULL},
    {"unshare", FS_NOTE, NULL},
    {"flock", FS_NOTE, NULL},
};

static fs_err command(struct fs_doctor *d, char **words, unsigned depth);

/* Examines the command that a starter starts: the first word from here on that looks like a
   program. */
static void started(struct fs_doctor *d, char **words, unsigned depth) {
  char path[PATH_MAX];
  for (; *words; words++) {
    if (words[0][0] == '-' || fs_find_command(*words, path, sizeof(path)) < 0) continue;
    command(d, words, depth);
    return;
  }
}

static void starter(struct fs_doctor *d, const char *path, char **words, unsigned depth) {
  const char *name = base_name(words[0]);
  for (size_t i = 0; i < FS_ARRAY_LEN(starters); i++) {
    if (strcmp(name, starters[i].name) != 0) continue;
    if (starters[i].text) fs_doctor_tell(d, starters[i].verdict, path, "%s", starters[i].text);
    if (starters[i].verdict != FS_BYPASS) started(d, words + 1, depth);
    return;
  }
}

/* Reports a variable that the started program loses. Without --env-as-is the library restores
   it. */
static void dropped(struct fs_doctor *d, const char *path, const char *word, const char *what, const char *advice) {
  if (d->as_is)
    fs_doctor_tell(d, FS_BYPASS, path, "env %s drops %s: %s", word, what, advice);
  else
    fs_doctor_tell(d, FS_NOTE, path, "env %s drops %s: the program gets it back (not with --env-as-is)", word, what);
}

/* Follows what env does with the variables, word by word. Returns the command's first word, or
   NULL. */
static char **env_words(struct fs_doctor *d, const char *path, char **words) {
  for (; *words; words++) {
    const char *w = *words;
    if (strcmp(w, "-i") == 0 || strcmp(w, "-") == 0 || strcmp(w, "--ignore-environment") == 0) {
      dropped(d, path, w, "LD_PRELOAD", "name the variables to drop instead, with -u");
    } else if (strcmp(w, "-u") == 0 || strncmp(w, "--unset=", 8) == 0) {
      const char *name = w[1] == 'u' ? words[1] : w + 8;
      if (name && (strcmp(name, "LD_PRELOAD") == 0 || strncmp(name, "FANSTORE_", 9) == 0))
        dropped(d, path, "-u", name, "leave it");
      if (w[1] == 'u' && words[1]) words++;
    } else if (strcmp(w, "-C") == 0 && words[1]) {
      words++;
    } else if (strncmp(w, "-S", 2) == 0 || strncmp(w, "--split-string", 14) == 0) {
      fs_doctor_tell(d, FS_NOTE, path, "the words of %s are not looked at: give them one by one", w);
      return NULL;
    } else if (strncmp(w, "LD_PRELOAD=", 11) == 0) {
      if (!strstr(w, "libfanstore.so"))
        dropped(d, path, "LD_PRELOAD=", "libfanstore.so", "set LD_PRELOAD for fs-launch, which puts its library first");
    } else if (w[0] != '-' && !strchr(w, '=')) {
      return words;
    }
  }
  return NULL;
}

const char *fs_doctor_starts(char **words, bool as_is, const char **name) {
  char path[PATH_MAX];
  for (unsigned depth = 0; *words && depth < FS_SCRIPT_DEPTH; depth++) {
    const char *base = base_name(words[0]);
    bool env = strcmp(base, "env") == 0, passes = env;
    *name = words[0];
    for (size_t i = 0; i < FS_ARRAY_LEN(starters); i++) {
      if (strcmp(base, starters[i].name) != 0) continue;
      if (starters[i].verdict == FS_BYPASS) return starters[i].text;
      passes = starters[i].text == NULL;
    }
    if (!passes) return NULL;
    for (words++; *words; words++) {
      bool all = strcmp(*words, "-i") == 0 || strcmp(*words, "-") == 0 || strcmp(*words, "--ignore-environment") == 0;
      if (env && as_is && all) return "-i drops LD_PRELOAD, and --env-as-is leaves it so";
      if (words[0][0] != '-' && !strchr(words[0], '=') && fs_find_command(*words, path, sizeof(path)) == 0) break;
    }
  }
  return NULL;
}

/* ---- scripts ---- */

/* Splits a "#!" line into the interpreter and at most one argument. Returns false if the file is no
   script. */
static bool script_line(const char *path, char line[256], char *words[3]) {
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ssize_t n = fd < 0 ? -1 : read(fd, line, 255);
  if (n < 3 || line[0] != '#' || line[1] != '!') return false;
  line[n] = '\0';
  line[strcspn(line, "\n")] = '\0';
  char *at = line + 2 + strspn(line + 2, " \t"), *rest = at + strcspn(at, " \t");
  if (*at == '\0') return false;
  if (*rest != '\0') {
    *rest++ = '\0';
    rest += strspn(rest, " \t");
    for (size_t len = strlen(rest); len > 0 && strchr(" \t\r", rest[len - 1]); len--) rest[len - 1] = '\0';
  }
  words[0] = at;
  words[1] = *rest != '\0' ? rest : NULL;
  words[2] = NULL;
  return true;
}

/* Examines env's single argument in a "#!" line: a program, or with -S several words. */
static void script_env(struct fs_doctor *d, char *words[3], unsigned depth) {
  char *split[16], *save = NULL, *text = words[1];
  size_t n = 0;
  if (!text) return;
  if (strncmp(text, "-S", 2) == 0) text += 2;
  for (char *w = strtok_r(text, " \t", &save); w && n < FS_ARRAY_LEN(split) - 1; w = strtok_r(NULL, " \t", &save))
    split[n++] = w;
  split[n] = NULL;
  char **inner = env_words(d, words[0], split);
  if (inner && command(d, inner, depth + 1) < 0)
    fs_doctor_tell(d, FS_NOTE, words[0], "%s: the interpreter is not found", inner[0]);
}

static bool languages(const char *name) {
  static const char *const known[] = {"python", "pypy",    "perl",  "ruby", "java", "node",  "nodejs",
                                      "R",      "Rscript", "julia", "lua",  "sh",   "bash",  "dash",
                                      "zsh",    "ksh",     "csh",   "tcsh", "fish", "tclsh", "make"};
  for (size_t i = 0; i < FS_ARRAY_LEN(known); i++) {
    size_t n = strlen(known[i]);
    if (strncmp(name, known[i], n) == 0 && !isalpha((unsigned char)name[n])) return true; /* python3.11 */
  }
  return false;
}

static fs_err file(struct fs_doctor *d, const char *path, unsigned depth) {
  char line[256], *words[3];
  struct fs_object *o;
  fs_err err = fs_object_open(d, path, NULL, &o);
  if (err == 0 && o) {
    fs_doctor_object(d, o);
    if (d->libraries) fs_object_closure(d, o);
    if (d->command && languages(base_name(path)))
      fs_doctor_tell(d, FS_NOTE, path,
                     "what it loads or starts later is not looked at: fs-launch doctor FILE... does that");
  }
  if (err == -EBADMSG) fs_doctor_tell(d, FS_NOTE, path, "a damaged ELF file");
  if (err != -ENOEXEC) return err == -EBADMSG ? 0 : err;
  if (!script_line(path, line, words)) {
    fs_doctor_tell(d, FS_NOTE, path, "neither an ELF file nor a script with a #! line: not looked at");
    return 0;
  }
  d->scripts++;
  fs_doctor_tell(
      d, FS_NOTE, path,
      "a script: only its interpreter is looked at; if it starts another program, give that one (of a shim of "
      "pyenv: what pyenv which NAME prints)");
  if (depth >= FS_SCRIPT_DEPTH) return 0;
  if (file(d, words[0], depth + 1) < 0) fs_doctor_tell(d, FS_NOTE, path, "its interpreter %s is not found", words[0]);
  if (strcmp(base_name(words[0]), "env") == 0) script_env(d, words, depth);
  return 0;
}

static fs_err command(struct fs_doctor *d, char **words, unsigned depth) {
  char path[PATH_MAX];
  fs_err err = fs_find_command(words[0], path, sizeof(path));
  if (err == 0) err = file(d, path, depth);
  if (err < 0 || depth >= FS_SCRIPT_DEPTH) return err;
  if (strcmp(base_name(words[0]), "env") == 0) {
    char **inner = env_words(d, path, words + 1);
    return inner ? command(d, inner, depth + 1) : 0;
  }
  starter(d, path, words, depth + 1);
  return 0;
}

fs_err fs_doctor_command(struct fs_doctor *d, char **words) {
  return command(d, words, 0);
}

fs_err fs_doctor_path(struct fs_doctor *d, const char *path) {
  return file(d, path, 0);
}
