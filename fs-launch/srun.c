/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch --by-srun SRUN WORD...: does by Slurm's srun and its PMIx what the mpirun of Open MPI 4
 * would do with these words, where there is no mpirun. Parameters become variables, which srun passes
 * on. srun does not pass real-time signals on, so this process stays: it finds srun's step by its
 * name, and has scancel signal the step.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

struct by_srun {
  struct fs_words words;
  uint64_t tasks;
  sigset_t forwarded;
  char name[48]; /* of the step */
};

/* Notes signals to pass on: "45,46". */
static void note_signals(struct by_srun *s, const char *list) {
  for (const char *p = list; *p; p += strspn(p, ",")) {
    int sig = (int)strtoul(p, (char **)&p, 10);
    if (sig > 0 && sig <= SIGRTMAX) sigaddset(&s->forwarded, sig);
    p += strcspn(p, ",");
  }
}

/* Sets a parameter of MPI's. Those of mpirun itself mean nothing here. */
static void set_parameter(struct by_srun *s, const char *name, const char *value) {
  static const char *const mpirun[] = {"plm", "ras", "oob_", "odls_", "orte_", "ess_"};
  char variable[128];
  if (strcmp(name, "ess_base_forward_signals") == 0) note_signals(s, value);
  for (size_t i = 0; i < FS_ARRAY_LEN(mpirun); i++)
    if (strncmp(name, mpirun[i], strlen(mpirun[i])) == 0) return;
  snprintf(variable, sizeof(variable), "OMPI_MCA_%s", name);
  setenv(variable, value, 1);
}

/* Takes one word of mpirun's and those that belong to it. Returns their number, or 0 at the program. */
static int take(struct by_srun *s, char **word) {
  static const char *const ignored[] = {"--enable-recovery", "--allow-run-as-root", "--oversubscribe"};
  if (word[0] == NULL || word[0][0] != '-') return 0;
  for (size_t i = 0; i < FS_ARRAY_LEN(ignored); i++)
    if (strcmp(word[0], ignored[i]) == 0) return 1;
  if (word[1] == NULL) return 1;
  if (strcmp(word[0], "--mca") == 0 && word[2]) {
    set_parameter(s, word[1], word[2]);
    return 3;
  }
  if (strcmp(word[0], "-np") == 0) {
    (void)fs_parse_u64(word[1], 1, UINT32_MAX, &s->tasks);
    return 2;
  }
  if (strcmp(word[0], "-x") == 0) {
    char *is = strchr(word[1], '=');
    if (is) *is++ = '\0';
    if (is) setenv(word[1], is, 1);
    return 2;
  }
  if (strcmp(word[0], "--host") == 0) fs_words_add(&s->words, "--nodelist=%s", word[1]);
  if (strcmp(word[0], "--host") == 0 || strcmp(word[0], "--bind-to") == 0 || strcmp(word[0], "--map-by") == 0) return 2;
  fs_words_add(&s->words, "%s", word[0]); /* of FANSTORE_MPIRUN_ARGS */
  return 1;
}

/* Makes srun's command line. What the job's own tasks are to be is not for this step. */
static void make_words(struct by_srun *s, char **argv) {
  static const char *const of_job[] = {"SLURM_NTASKS_PER_NODE", "SLURM_NTASKS",       "SLURM_NPROCS",
                                       "SLURM_TASKS_PER_NODE",  "SLURM_DISTRIBUTION", "SLURM_MEM_PER_CPU"};
  uint64_t nodes = 1;
  const char *all = getenv("SLURM_NNODES");
  fs_words_add(&s->words, "%s", argv[2]);
  fs_words_all(&s->words, "--mpi=pmix --overlap --mem=0 --overcommit --distribution=cyclic --input=0 "
                          "--kill-on-bad-exit=0 --no-kill");
  fs_words_add(&s->words, "--job-name=%s", s->name);
  char **word = argv + 3;
  for (int n; (n = take(s, word)) > 0; word += n) continue;
  if (all) (void)fs_parse_u64(all, 1, UINT32_MAX, &nodes);
  fs_words_add(&s->words, "--nodes=%llu", (unsigned long long)FS_MIN(nodes, s->tasks));
  fs_words_add(&s->words, "--ntasks=%llu", (unsigned long long)s->tasks);
  for (; *word; word++) fs_words_add(&s->words, "%s", *word);
  for (size_t i = 0; i < FS_ARRAY_LEN(of_job); i++) unsetenv(of_job[i]);
}

/* Runs a program that srun came with, and reads the first line that ends in our step's name. */
static bool step_id(const struct by_srun *s, char *id, size_t size) {
  char command[160], line[160], name[64];
  const char *job = getenv("SLURM_JOB_ID");
  uint64_t number;
  bool found = false;
  if (!job || fs_parse_u64(job, 1, UINT32_MAX, &number) < 0) return false;
  snprintf(command, sizeof(command), "squeue -h --steps -j %llu -o '%%i %%j' 2>/dev/null </dev/null",
           (unsigned long long)number);
  FILE *f = popen(command, "re");
  while (f && fgets(line, sizeof(line), f)) {
    char step[64];
    if (sscanf(line, "%63[0-9.] %63s", step, name) != 2 || strcmp(name, s->name) != 0) continue;
    found = snprintf(id, size, "%s", step) < (int)size;
  }
  if (f) pclose(f);
  return found;
}

static void signal_step(const struct by_srun *s, int sig) {
  char id[64], option[32];
  if (!step_id(s, id, sizeof(id))) return;
  snprintf(option, sizeof(option), "--signal=%d", sig);
  pid_t pid = fork();
  if (pid == 0) {
    execlp("scancel", "scancel", option, id, (char *)NULL);
    _exit(FS_EXIT_NOT_FOUND);
  }
}

static int wait_for(const struct by_srun *s, pid_t srun, const sigset_t *wanted) {
  for (;;) {
    siginfo_t info;
    int status, sig = sigwaitinfo(wanted, &info);
    pid_t ended;
    if (sig > 0 && sigismember(&s->forwarded, sig) == 1) signal_step(s, sig);
    if (sig == SIGTERM || sig == SIGINT || sig == SIGQUIT || sig == SIGHUP) kill(srun, sig);
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
      if (ended == srun) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

int fs_by_srun(int argc, char **argv) {
  struct by_srun s = {.tasks = 1};
  sigset_t wanted, old;
  if (argc < 4) return FS_EXIT_USAGE;
  sigemptyset(&s.forwarded);
  snprintf(s.name, sizeof(s.name), "fanstore-%d", (int)getpid());
  make_words(&s, argv);
  wanted = s.forwarded;
  for (const char *p = (const char[]){SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGHUP, 0}; *p; p++) sigaddset(&wanted, *p);
  sigprocmask(SIG_BLOCK, &wanted, &old);
  pid_t srun = fork();
  if (srun == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &old, NULL);
    execv(argv[2], s.words.word);
    fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
    _exit(FS_EXIT_NOT_FOUND);
  }
  return srun < 0 ? FS_EXIT_FAILED : wait_for(&s, srun, &wanted);
}
