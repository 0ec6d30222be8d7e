/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-launch's command line, and the lists of hosts that users and Slurm give: refused, or with values that can be. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../fs-launch/hosts.c" /* for what reads the lists */
#include "fuzz_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = {"--dataset",
                                    "--mount",
                                    "--local-dir",
                                    "--emulate",
                                    "--hosts",
                                    "--np",
                                    "--replicas",
                                    "--cache",
                                    "--report",
                                    "--stage-out",
                                    "--verify",
                                    "--keep",
                                    "--discard",
                                    "--output-limit",
                                    "--stage-in",
                                    "--output-replicas",
                                    "--static",
                                    "--deadline",
                                    "--start-timeout",
                                    "--read-only",
                                    "-v",
                                    "-d",
                                    "-m",
                                    "-n",
                                    "always",
                                    "1",
                                    "4G",
                                    "/a",
                                    "--purge",
                                    "--daemon",
                                    "--log",
                                    "--emulate=3",
                                    "--"};

static bool ends_it(const char *word) { /* help and version leave by exit */
  bool letters = word[0] == '-' && word[1] != '-';
  return strstr(word, "help") || strstr(word, "version") || (letters && strchr(word, 'h'));
}

static void check_options(char **argv, int argc) {
  struct fs_launch_options o = {0};
  int status = fs_options_parse(&o, argc, argv);
  if (status != -1 && status != FS_EXIT_USAGE) abort();
  if (status != -1) return;
  if (o.emulate > 64 || o.replicas == 0 || o.replicas > FS_MAX_NODES || o.datasets > FS_MAX_DATASETS) abort();
  if (!o.verify || fs_verify_parse(o.verify) < 0 || o.output_replicas > 1) abort();
  bool outputs = o.keep || o.discard || o.stage_out || o.stage_in || o.output_limit > 0 || o.output_replicas > 0;
  if ((o.read_only && outputs) || o.keep + o.discard + (o.stage_out != NULL) > 1) abort();
  if (o.daemon ? o.command || o.np > 0 || o.doctor : !o.command[0]) abort();
  if (o.daemon) return;
  if (o.command < argv || o.command >= argv + argc) abort();
}

static void check_hosts(const char *text) {
  struct host_list list = {0};
  char name[256], path[64];
  fs_err err = hosts_from_option(text, &list);
  for (uint32_t i = 0; i < list.n; i++)
    if (strchr("-", list.name[i][0]) || strlen(list.name[i]) > 255 || strpbrk(list.name[i], ",: ")) abort();
  if (err == 0 && list.n == 0) abort();
  list_free(&list);
  slurm_first(text, name, sizeof(name));
  if (strchr(name, ',') || strlen(name) >= sizeof(name)) abort();
  int fd = memfd_create("hosts", MFD_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) abort();
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  list = (struct host_list){0};
  err = hosts_from_file(path, &list);
  for (uint32_t i = 0; i < list.n; i++)
    if (strchr("-", list.name[i][0]) || strpbrk(list.name[i], " \t\r\n#:@")) abort();
  if (err == 0 && list.n == 0) abort();
  list_free(&list);
  close(fd);
}

/* An allocation of so many nodes: `names` is in the environment, and this host is said to be the first of it or not. */
static void check_slurm(const char *names) {
  struct fs_launch l = {.opt.replicas = 1};
  const char *count = names + FS_MIN(strlen(names), 3u);
  if (names[0] == '\0') return;
  setenv("SLURM_JOB_ID", "1", 1);
  setenv("SLURM_JOB_NUM_NODES", strpbrk(names, "|") ? count : "4", 1);
  setenv("SLURM_JOB_NODELIST", names, 1);
  setenv("SLURMD_NODENAME", "r1", 1);
  setenv("SLURM_PROCID", names[0] == '1' ? names : "0", 1);
  int status = fs_hosts_find(&l);
  if (status != 0 && status != FS_EXIT_USAGE) abort();
  if (status == 0 && (l.nodes == 0 || l.nodes > FS_MAX_NODES || !memchr(l.first_host, '\0', sizeof(l.first_host))))
    abort();
  if (l.where == FS_WHERE_SLURM && l.first_here != (strcmp(l.first_host, "r1") == 0)) abort();
  free(l.node);
}

/* The command lines of `clean` and `doctor`. */
static void check_others(char **argv, int argc) {
  struct fs_launch_options o = {0};
  int status = fs_options_parse_clean(&o, argc, argv);
  if (status != -1 && status != FS_EXIT_USAGE) abort();
  int next = fs_options_parse_doctor(argc, argv);
  if (next >= argc || next == 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_words w = {.known = words, .n = FS_ARRAY_LEN(words), .left_out = ends_it};
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
  check_hosts(text);
  check_slurm(text);
  free(text);
  fuzz_words(&w, "fs-launch", data, size);
  check_options(w.argv, w.argc);
  check_others(w.argv, w.argc);
  free(w.text);
  return 0;
}
