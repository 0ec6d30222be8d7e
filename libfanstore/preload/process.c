/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of fork, exec and spawn. Children inherit open files by the shared table of slots.
 * Before they start, the slots are marked shared, and the descriptors that they are to see lose the
 * kernel's close-on-exec flag. FANSTORE_STATE tells an executed program where the table is.
 * docs/internals/descriptors.md has the whole protocol.
 */
#include <alloca.h>
#include <sys/wait.h>

#include "client/path/cwd.h"
#include "client/real/program.h"
#include "ipc/node.h"
#include "preload/environ.h"
#include "preload/exec.h"
#include "preload/preload.h"

/* Returns this thread's counter, which the child's wrappers read. vfork.S calls this. */
int *fs_vfork_enter(void);
int *fs_vfork_enter(void) {
  if (fs_vfork_depth == 0) fs_state_ahead();
  if (fs_vfork_depth == 0 && fs_state_fd() >= 0) {
    fs_real_follow();
    fs_fd_share();
  }
  fs_vfork_depth++;
  return &fs_vfork_depth;
}
int fs_vfork_failed(int err);
int fs_vfork_failed(int err) {
  return fs_ret_int(err);
}
#if defined(__powerpc64__)
/* Ends what fs_vfork_enter has begun, and returns r as libc would. The parent calls this. */
long fs_vfork_left(long r);
long fs_vfork_left(long r) {
  fs_vfork_depth--;
  return fs_ret(r);
}
#endif

static pid_t forked(pid_t pid, const struct fs_fd_idle *idle, struct fs_fork_locks *locks) {
  fs_data_fork_end(pid == 0);
  fs_data_locks_forked(locks, pid == 0);
  if (pid != 0) {
    fs_fd_parent(idle);
    return pid;
  }
  fs_fd_child(idle);
  fs_cwd_forked();
  fs_data_forked();
  fs_output_forked();
  return 0;
}

static pid_t fork_by(pid_t (*real)(void)) {
  struct fs_fd_idle idle;
  struct fs_fork_locks locks;
  if (fs_mount_count() == 0) return real();
  fs_real_follow();
  fs_fd_prepare_fork(&idle);
  fs_data_locks_fork(&locks);
  fs_data_fork_begin();
  return forked(real(), &idle, &locks);
}

FS_VIA(pid_t, fork, (void), fork_by(FS_REAL(fork)))
FS_ALIAS(__fork, fork);
FS_VIA(pid_t, _Fork, (void), fork_by(FS_REAL(_Fork)))

/* libc's daemon would fork without the wrapper, so this does the same. */
FS_EXPORT int daemon(int keep_cwd, int keep_files) {
  switch (fork()) {
  case -1:
    return -1;
  case 0:
    break;
  default:
    /* As daemon(3) says, the parent ends without its exit handlers. */
    FS_SYS1(SYS_exit_group, 0);
  }
  if (setsid() < 0) return -1;
  if (!keep_cwd && chdir("/") < 0) return -1;
  if (keep_files) return 0;
  int fd = open("/dev/null", O_RDWR);
  if (fd < 0) return -1;
  for (int i = 0; i < 3; i++) dup2(fd, i);
  if (fd > 2) close(fd);
  return 0;
}

/* Prepares what the program is to inherit of the open files. `spawn` says that libc's posix_spawn
   starts it. */
static void hand_on(bool loads_us, bool spawn) {
  if (fs_state_fd() < 0) {
    fs_fd_share();
    return;
  }
  fs_real_follow();
  if (!spawn) fs_output_publish_all(); /* nothing of this program is left to do it */
  fs_fd_prepare_exec();
  if (!loads_us) fs_files_inherited(spawn);
}

/* Runs `call` with env in place of envp. env is on the stack, since a vfork child must not
   allocate. */
#define FS_WITH_ENV(dirfd, path, name, envp, spawn, call)                                                              \
  do {                                                                                                                 \
    char *const *env = envp;                                                                                           \
    struct fs_env_plan fs_plan;                                                                                        \
    size_t fs_bytes = fs_env_plan(&fs_plan, &(struct fs_program_start){dirfd, path, name, envp});                      \
    hand_on(fs_plan.loads_us, spawn);                                                                                  \
    if (fs_bytes > 0) env = fs_env_build(&fs_plan, envp, alloca(fs_bytes));                                            \
    return call;                                                                                                       \
  } while (0)

int fs_exec_real(const char *path, const char *name, char *const argv[], char *const envp[]) {
  FS_WITH_ENV(AT_FDCWD, path, name, envp, false, FS_REAL(execve)(path, argv, env));
}

int fs_spawn_real(const char *path, const char *name, pid_t *pid, const posix_spawn_file_actions_t *fa,
                  const posix_spawnattr_t *at, char *const argv[], char *const envp[]) {
  FS_WITH_ENV(AT_FDCWD, path, name, envp, true, FS_REAL(posix_spawn)(pid, path, fa, at, argv, env));
}

static __attribute__((noinline)) int execve_slow(const char *path, char *const argv[], char *const envp[]) {
  struct fs_found f;
  int route = fs_path_route_slow(AT_FDCWD, path, 0, &f);
  if (route == FS_OUTSIDE) return fs_exec_real(path, path, argv, envp);
  return fs_exec_entry(route, &f, path, argv, envp);
}

FS_EXPORT int execve(const char *path, char *const argv[], char *const envp[]) {
  return fs_path_outside(AT_FDCWD, path) ? fs_exec_real(path, path, argv, envp) : execve_slow(path, argv, envp);
}

FS_EXPORT int execv(const char *path, char *const argv[]) {
  return execve(path, argv, environ);
}

FS_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[]) {
  if (fs_search_meets_mount(file)) return fs_search_exec(file, argv, envp);
  char path[PATH_MAX];
  const char *found = fs_program_find(file, path);
  FS_WITH_ENV(AT_FDCWD, found, found, envp, false, FS_REAL(execvpe)(file, argv, env));
}

FS_EXPORT int execvp(const char *file, char *const argv[]) {
  return execvpe(file, argv, environ);
}

/* Collects the arguments of the execl family, with room for n + 1 pointers. */
static void take_arguments(const char *first, va_list *ap, char **argv, size_t n) {
  argv[0] = (char *)first;
  for (size_t i = 1; i <= n; i++) argv[i] = va_arg(*ap, char *);
}

static size_t count_arguments(const char *first, va_list ap) {
  size_t n = 0;
  for (const char *a = first; a != NULL; a = va_arg(ap, const char *)) n++;
  return n;
}

#define FS_EXECL(first)                                                                                                \
  va_list ap;                                                                                                          \
  va_start(ap, first);                                                                                                 \
  size_t n = count_arguments(first, ap);                                                                               \
  va_end(ap);                                                                                                          \
  char **argv = alloca((n + 1) * sizeof(char *));                                                                      \
  va_start(ap, first);                                                                                                 \
  take_arguments(first, &ap, argv, n)

FS_EXPORT int execl(const char *path, const char *first, ...) {
  FS_EXECL(first);
  va_end(ap);
  return execve(path, argv, environ);
}

FS_EXPORT int execlp(const char *file, const char *first, ...) {
  FS_EXECL(first);
  va_end(ap);
  return execvpe(file, argv, environ);
}

FS_EXPORT int execle(const char *path, const char *first, ...) {
  FS_EXECL(first);
  char *const *envp = va_arg(ap, char *const *);
  va_end(ap);
  return execve(path, argv, envp);
}

FS_EXPORT int fexecve(int fd, char *const argv[], char *const envp[]) {
  struct fs_slot *s = fs_fd_slot(fd);
  if (s != NULL) {
    fd = s == &fs_slot_closed ? -EBADF : fs_data_materialize_checked(s->mount, s->entry);
    if (fd < 0) return fs_ret_int(fd);
  }
  char path[32];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  FS_WITH_ENV(AT_FDCWD, path, NULL, envp, false, FS_REAL(fexecve)(fd, argv, env));
}

FS_EXPORT int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags) {
  struct fs_found f;
  if ((flags & AT_EMPTY_PATH) && path[0] == '\0' && fs_fd_slot(dirfd) != NULL) return fexecve(dirfd, argv, envp);
  int route = fs_path_route(dirfd, path, 0, &f);
  if (route != FS_OUTSIDE) return fs_exec_entry(route, &f, path, argv, envp);
  FS_WITH_ENV(dirfd, path, path[0] == '/' || dirfd == AT_FDCWD ? path : NULL, envp, false,
              FS_REAL(execveat)(dirfd, path, argv, env, flags));
}

/* libc runs the shell without the wrappers, with the environment as it is. */
static void prepare_shell(void) {
  if (fs_mount_count() == 0) return;
  bool state = fs_state_fd() >= 0;
  hand_on(state && (fs_program_loads_us(AT_FDCWD, "/bin/sh", environ) || fs_env_gives()), true);
  if (state) {
    char text[FS_STATE_TEXT];
    fs_state_text(text);
    fs_env_set(FS_ENV_STATE, text);
  }
  fs_env_restore();
}

FS_EXPORT int system(const char *command) {
  prepare_shell();
  return FS_REAL(system)(command);
}

FS_EXPORT FILE *popen(const char *command, const char *mode) {
  prepare_shell();
  FILE *f = FS_REAL(popen)(command, mode);
  if (f != NULL) fs_fd_forget(fileno(f));
  return f;
}
FS_ALIAS(_IO_popen, popen);

FS_EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict fa,
                          const posix_spawnattr_t *restrict at, char *const argv[restrict],
                          char *const envp[restrict]) {
  struct fs_found f;
  int route = fs_path_route(AT_FDCWD, path, 0, &f);
  if (route != FS_OUTSIDE) return fs_spawn_entry(route, &f, path, pid, fa, at, argv, envp);
  return fs_spawn_real(path, path, pid, fa, at, argv, envp);
}

FS_EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file,
                           const posix_spawn_file_actions_t *restrict fa, const posix_spawnattr_t *restrict at,
                           char *const argv[restrict], char *const envp[restrict]) {
  char path[PATH_MAX];
  if (fs_search_meets_mount(file)) {
    fs_err err = fs_search(file, path);
    return err != 0 ? -err : posix_spawn(pid, path, fa, at, argv, envp);
  }
  const char *found = fs_program_find(file, path);
  FS_WITH_ENV(AT_FDCWD, found, found, envp, true, FS_REAL(posix_spawnp)(pid, file, fa, at, argv, env));
}
