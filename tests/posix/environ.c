/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts a program with an environment of its own, by the call that is named: environ CALL FILE [NAME=VALUE...]. The
   program is /bin/cat, of FILE; for system and popen, which take this process's environment, a shell. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *words[3] = {"cat"};
static char *const *none;

static int spawned(int err, pid_t pid) {
  int status = 1;
  if (err != 0) return err;
  waitpid(pid, &status, 0);
  return status;
}

static int shell(const char *call, char *const env[]) {
  char command[4096];
  snprintf(command, sizeof(command), "cat %s", words[1]);
  if (clearenv() != 0) return 1;
  for (; *env != NULL; env++) putenv(*env);
  if (strcmp(call, "system") == 0) return system(command);
  FILE *f = popen(command, "r");
  for (int c; f != NULL && (c = getc(f)) != EOF;) putchar(c);
  return f == NULL ? 1 : pclose(f);
}

static void *small(void *env) {
  pid_t pid = 0;
  return spawned(posix_spawn(&pid, "/bin/cat", NULL, NULL, words, env), pid) == 0 ? env : NULL;
}

/* In a thread with the smallest stack that there is. */
static int small_stack(char *const env[]) {
  void *same = NULL;
  pthread_t thread;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN);
  if (pthread_create(&thread, &attr, small, (void *)env) != 0) return 1;
  pthread_join(thread, &same);
  return same == NULL;
}

static int start(const char *call, char *const env[]) {
  pid_t pid = 0;
  if (strcmp(call, "execve") == 0) return execve("/bin/cat", words, env);
  if (strcmp(call, "execvpe") == 0) return execvpe("cat", words, env);
  if (strcmp(call, "execle") == 0) return execle("/bin/cat", words[0], words[1], NULL, env);
  if (strcmp(call, "fexecve") == 0) return fexecve(open("/bin/cat", O_RDONLY | O_CLOEXEC), words, env);
  if (strcmp(call, "execveat") == 0) return execveat(AT_FDCWD, "/bin/cat", words, env, 0);
  if (strcmp(call, "raw_execve") == 0) return (int)syscall(SYS_execve, "/bin/cat", words, env);
  if (strcmp(call, "raw_execveat") == 0) return (int)syscall(SYS_execveat, AT_FDCWD, "/bin/cat", words, env, 0);
  if (strcmp(call, "none") == 0) return execve("/bin/cat", words, none);
  if (strcmp(call, "execv") == 0) return environ = (char **)env, execv("/bin/cat", words);
  if (strcmp(call, "posix_spawn") == 0) return spawned(posix_spawn(&pid, "/bin/cat", NULL, NULL, words, env), pid);
  if (strcmp(call, "posix_spawnp") == 0) return spawned(posix_spawnp(&pid, "cat", NULL, NULL, words, env), pid);
  if (strcmp(call, "small_stack") == 0) return small_stack(env);
  if (strcmp(call, "vfork") == 0) {
    if ((pid = vfork()) == 0) _exit(execve("/bin/cat", words, env));
    return spawned(0, pid);
  }
  return shell(call, env);
}

/* Too large for the kernel, with the library's variables or without. */
static int too_big(void) {
  static char *many[140];
  char *text = calloc(1, 120000);
  if (text == NULL) return 1;
  memset(text, 'x', 119999);
  text[1] = '=';
  for (int i = 0; i < 139; i++) many[i] = text;
  return execve("/bin/cat", words, many) == -1 && errno == E2BIG ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  words[1] = argv[2];
  if (strcmp(argv[1], "e2big") == 0) return too_big();
  int r = start(argv[1], argv + 3);
  return r == 0 ? 0 : 1;
}
