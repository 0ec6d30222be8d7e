/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of the commands, and what they share. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prepare.h"

char *fs_prep_name(const char *path) {
  size_t len = strlen(path);
  size_t size = len * 4 + 1; /* \xNN at worst */
  char *out = malloc(size);
  if (out == NULL) {
    fputs("fs-prepare: out of memory\n", stderr);
    _exit(FS_EXIT_FAILED);
  }
  return fs_printable(path, len, out, size);
}

void fs_prep_version(void) {
  printf("fs-prepare (FanStore) %s\n", FS_VERSION);
}

int fs_prep_finish(int status) {
  bool failed = ferror(stdout);
  errno = 0;
  if (fflush(stdout) == 0 && !failed) return status;
  struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
  if (poll(&out, 1, 0) == 1 && out.revents & POLLERR) return status; /* its reader has seen enough, as head does */
  fs_say("standard output cannot be written: %s", errno != 0 ? strerror(errno) : "not all of it was");
  return FS_EXIT_FAILED;
}

static void help(const struct fs_prep_cli *cli) {
  printf("usage: fs-prepare %s %s\n", cli->command, cli->synopsis);
  for (size_t i = 0; i < FS_ARRAY_LEN(cli->forms) && cli->forms[i] != NULL; i++)
    printf("       fs-prepare %s %s\n", cli->command, cli->forms[i]);
  printf("\n%s\n\nOptions:\n", cli->about);
  fs_opt_help(stdout, cli->opts, cli->nopts);
}

static fs_err on_option(void *ctx, int id, const char *value) {
  struct fs_prep_cli *cli = ctx;
  if (id == FS_OPT_HELP || id == FS_OPT_VERSION) {
    if (id == FS_OPT_HELP)
      help(cli);
    else
      fs_prep_version();
    exit(fs_prep_finish(FS_EXIT_OK));
  }
  if (id != FS_OPT_WORD || cli->want == 0) return cli->set(cli->ctx, id, value);
  if (cli->got == cli->want) {
    fs_say("%s: '%s' is one argument too many (see fs-prepare %s --help)", cli->command, value, cli->command);
    return -EINVAL;
  }
  cli->word[cli->got++] = value;
  return 0;
}

fs_err fs_prep_parse(struct fs_prep_cli *cli, int argc, char **argv) {
  char prog[64];
  snprintf(prog, sizeof prog, "fs-prepare %s", cli->command);
  int next = fs_opt_parse(prog, cli->opts, cli->nopts, argc, argv, 1, false, on_option, cli);
  if (next < 0) return -EINVAL;
  for (; next < argc; next++) /* after "--" all arguments are words */
    if (on_option(cli, FS_OPT_WORD, argv[next]) < 0) return -EINVAL;
  for (size_t i = 0; i < cli->got; i++)
    if (cli->word[i][0] == '\0') {
      fs_say("%s: %s is empty", cli->command, cli->word_names[i]);
      return -EINVAL;
    }
  if (cli->got == cli->want) return 0;
  fs_say("%s: %s is missing (usage: fs-prepare %s %s)", cli->command, cli->word_names[cli->got], cli->command,
         cli->synopsis);
  return -EINVAL;
}

fs_err fs_prep_beside(const char *program, char out[PATH_MAX]) {
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) {
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    n = snprintf(out, PATH_MAX, "%s/%s", self, program);
    if (n < PATH_MAX && access(out, X_OK) == 0) return 0;
  }
  fs_say("%s: not found beside fs-prepare: build or install FanStore whole", program);
  return -ENOENT;
}

fs_err fs_prep_jobs(const char *value, unsigned *jobs) {
  uint64_t n;
  if (fs_parse_u64(value, 1, 4096, &n) < 0) {
    fs_say("--jobs '%s': give a number from 1 to 4096", value);
    return -EINVAL;
  }
  *jobs = (unsigned)n;
  return 0;
}
