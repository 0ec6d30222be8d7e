/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes a program that is stored in a dataset. The kernel must find the program, and an answer
 * cannot change the call's arguments. So ptrace stops the caller for a moment on its way out of the
 * call. The name /proc/<us>/fd/<N> is written below its stack, its path argument is set to that
 * name, and it makes the call again. The memory below the stack is unused by definition, so the
 * parent of a vfork child notices nothing.
 *
 * Only one caller is traced at a time (fs_tracing), and not while the main thread waits for
 * children, because the stop of a traced child is reported to any thread.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "static.h"

pthread_mutex_t fs_tracing = PTHREAD_MUTEX_INITIALIZER;

#define FS_RED_ZONE 128
#define FS_SHEBANG 256 /* the kernel's limit for the first line */
#define FS_WORDS 40    /* arguments of a script; a script with more sees another $0 */
#define FS_KEPT 256    /* programs that stay open: an interpreter opens its script later */

static _Atomic bool told_setuid, told_32bit, told_traced;

/* The new arguments of the call: the path's text, and for a script the interpreter's arguments. */
struct wish {
  int path; /* number of the path argument; argv is the next one */
  char text[FS_SHEBANG];
  char argument[FS_SHEBANG];   /* the interpreter's argument; may be empty */
  uint64_t word[FS_WORDS + 4]; /* argv; the first two are set when their addresses are known */
  size_t words;                /* 0: argv is unchanged */
};

typedef struct user_regs_struct fs_regs;
#if defined(__x86_64__)
static uint64_t stack_of(const fs_regs *r) {
  return r->rsp;
}
static void set_argument(fs_regs *r, int i, uint64_t v) {
  unsigned long long *at[] = {(void *)&r->rdi, (void *)&r->rsi, (void *)&r->rdx};
  *at[i] = v;
}
static bool in_call(const fs_regs *r, const struct fs_call *c) {
  return r->orig_rax == (unsigned long long)c->nr && r->rdi == c->arg[0] && r->rsi == c->arg[1] && r->rdx == c->arg[2];
}
static void call_again(fs_regs *r, int nr) {
  r->rax = (uint64_t)nr;
  r->orig_rax = (uint64_t)-1; /* no call that the kernel could restart */
  r->rip -= 2;
}
#else
static uint64_t stack_of(const fs_regs *r) {
  return r->sp;
}
static void set_argument(fs_regs *r, int i, uint64_t v) {
  r->regs[i] = v;
}
static bool in_call(const fs_regs *r, const struct fs_call *c) {
  return r->regs[8] == (unsigned long long)c->nr && r->regs[1] == c->arg[1] && r->regs[2] == c->arg[2];
}
static void call_again(fs_regs *r, int nr) {
  r->regs[8] = (uint64_t)nr;
  r->pc -= 4;
}
#endif

/* Lays out argv, the path's text and the argument's text as they will lie at addr. */
static size_t lay_out(struct wish *w, uint64_t addr, char *block) {
  size_t at = w->words * sizeof(w->word[0]), text = strlen(w->text) + 1, argument = strlen(w->argument) + 1;
  if (w->words > 0) w->word[0] = addr + at;
  if (w->argument[0] != '\0') w->word[1] = addr + at + text;
  memcpy(block, w->word, at);
  memcpy(block + at, w->text, text);
  memcpy(block + at + text, w->argument, argument);
  return at + text + argument;
}

static fs_err redirect(const struct fs_call *c, struct wish *w) {
  char block[sizeof(struct wish)];
  fs_regs regs;
  struct iovec v = {&regs, sizeof(regs)};
  if (ptrace(PTRACE_GETREGSET, c->tid, NT_PRSTATUS, &v) != 0) return -errno;
  if (!in_call(&regs, c)) return -ESRCH; /* a signal handler runs, or the pid was reused */
  size_t n = lay_out(w, 0, block);
  uint64_t addr = (stack_of(&regs) - FS_RED_ZONE - n) & ~15ull;
  lay_out(w, addr, block);
  struct iovec from = {block, n}, to = {(void *)(uintptr_t)addr, n};
  if (FS_SYS6(SYS_process_vm_writev, c->tid, &from, 1, &to, 1, 0) != (long)n) return -EFAULT;
  set_argument(&regs, 0, c->arg[0]); /* the register may hold the answer */
  set_argument(&regs, w->path, addr + w->words * sizeof(w->word[0]));
  if (w->words > 0) set_argument(&regs, w->path + 1, addr);
  call_again(&regs, c->nr);
  return ptrace(PTRACE_SETREGSET, c->tid, NT_PRSTATUS, &v) == 0 ? 0 : -errno;
}

/* Lets a killed caller die. Its parent gets the status only after we have waited for the caller.
   Our own children are left to the main thread. */
static void let_die(const struct fs_call *c) {
  char text[FS_STATUS_HEAD];
  int status;
  fs_tracee_status(c, text, sizeof(text));
  const char *line = strstr(text, "\nTgid:"), *next = strstr(text, "\nPPid:");
  if (line == NULL || next == NULL) return;
  int tgid = atoi(line + 6), parent = atoi(next + 6);
  if (tgid != c->tid || parent != (int)fs_sys_getpid()) waitpid(c->tid, &status, __WALL | __WNOTHREAD);
}

/* Redirects the call. The call's answer is -EACCES, which the program sees only if the redirection
   fails. */
static int64_t call_with(const struct fs_call *c, struct wish *w) {
  siginfo_t info = {0};
  if (ptrace(PTRACE_SEIZE, c->tid, NULL, NULL) != 0) {
    if (fs_call_valid(c))
      fs_tell_once(&told_traced, "fanstore-static: cannot execute %s: the process is traced, or may not be", c->full);
    return -EACCES;
  }
  ptrace(PTRACE_INTERRUPT, c->tid, NULL, NULL);
  fs_answer(c, -EACCES);
  int r = waitid(P_PID, (id_t)c->tid, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL);
  if (r == 0 && info.si_code == CLD_TRAPPED) redirect(c, w);
  /* The caller may also be killed while it is stopped. */
  bool gone = ptrace(PTRACE_DETACH, c->tid, NULL, NULL) != 0;
  if (gone && waitid(P_PID, (id_t)c->tid, &info, WEXITED | WNOWAIT | __WALL) == 0) let_die(c);
  return FS_ANSWERED;
}

static int64_t call_with_alone(const struct fs_call *c, struct wish *w) {
  pthread_mutex_lock(&fs_tracing);
  int64_t r = call_with(c, w);
  pthread_mutex_unlock(&fs_tracing);
  return r;
}

/* ---- programs ---- */

/* Keeps a program's descriptor open while another program may still open it by name. */
static void keep(fs_fd fd) {
  static _Atomic int32_t kept[FS_KEPT]; /* number + 1 */
  static _Atomic uint32_t next;
  int32_t old = atomic_exchange(&kept[atomic_fetch_add(&next, 1) % FS_KEPT], fd + 1);
  if (old > 0) fs_sys_close(old - 1);
}

/* ---- scripts ---- */

/* Splits "#! /bin/sh -x" into the interpreter and its one argument ("" if none), like the
   kernel. */
static bool parse_shebang(char *line, struct wish *w) {
  line[strcspn(line, "\n")] = '\0';
  char *p = line + 2 + strspn(line + 2, " \t");
  size_t len = strcspn(p, " \t");
  char *arg = p + len + strspn(p + len, " \t");
  if (len == 0) return false;
  p[len] = '\0';
  for (size_t end = strlen(arg); end > 0 && (arg[end - 1] == ' ' || arg[end - 1] == '\t');) arg[--end] = '\0';
  strcpy(w->text, p);
  strcpy(w->argument, arg);
  return true;
}

/* Sets argv to: interpreter [argument] path argv[1...]. Returns false if these are too many to be
   written below another process's stack. */
static bool set_arguments(const struct fs_call *c, struct wish *w) {
  uint64_t argv = c->arg[w->path + 1], word = argv;
  w->word[w->words++] = 0;
  if (w->argument[0] != '\0') w->word[w->words++] = 0;
  w->word[w->words++] = c->arg[w->path];
  for (size_t i = 0; argv != 0 && word != 0; i++) {
    if (w->words > FS_WORDS || fs_tracee_read(c, argv + i * sizeof(word), &word, sizeof(word)) != 0) return false;
    if (i > 0 && word != 0) w->word[w->words++] = word;
  }
  w->word[w->words++] = 0;
  return true;
}

/* Redirects the call. The interpreter gets a script by the script's own path, like from the kernel.
   Any other program gets our name for it. */
static int64_t execute(struct fs_call *c, const struct fs_trap *t, fs_fd fd, bool below) {
  char head[FS_SHEBANG] = "";
  struct wish w = {.path = t->path};
  if (fd < 0) return fd;
  fs_ssize n = below ? fs_sys_pread(fd, head, sizeof(head) - 1, 0) : 0;
  bool script = n > 2 && head[0] == '#' && head[1] == '!';
  if (below && !script && memcmp(head, ELFMAG, SELFMAG) != 0) {
    fs_sys_close(fd);
    return -ENOEXEC;
  }
  keep(fd);
  if (script && !parse_shebang(head, &w)) return -ENOEXEC;
  if (script && set_arguments(c, &w)) return call_with_alone(c, &w);
  w = (struct wish){.path = t->path};
  snprintf(w.text, sizeof(w.text), "/proc/%d/fd/%d", (int)fs_sys_getpid(), fd);
  return call_with_alone(c, &w);
}

static int64_t execute_below(struct fs_call *c, const struct fs_trap *t, const struct fs_found *f) {
  struct stat st;
  fs_err err = fs_file_stat(f->mount, f->entry, &st);
  if (err == 0 && S_ISLNK(st.st_mode)) err = -ELOOP;
  if (err == 0 && !S_ISREG(st.st_mode)) err = -EACCES;
  if (err == 0) err = fs_file_access(f->mount, f->entry, X_OK);
  return err != 0 ? err : execute(c, t, fs_real_open(f->mount, f->entry, false, 0), true);
}

/* Tells the user once about a program that cannot be served as expected. */
static void look_at(const struct fs_call *c) {
  unsigned char head[EI_CLASS + 1] = {0};
  if (c->seen && (c->st.st_mode & S_ISUID))
    fs_tell_once(&told_setuid, "fanstore-static: %s: its set-user-ID bit has no effect here", c->full);
  if (!c->seen || atomic_load(&told_32bit) || !S_ISREG(c->st.st_mode)) return;
  FS_AUTO_CLOSE int fd = fs_sys_openat(AT_FDCWD, c->full, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0 || fs_sys_read(fd, head, sizeof(head)) != (fs_ssize)sizeof(head)) return;
  if (memcmp(head, ELFMAG, SELFMAG) == 0 && head[EI_CLASS] == ELFCLASS32)
    fs_tell_once(&told_32bit, "fanstore-static: %s: a 32-bit program, which sees no mount", c->full);
}

int64_t fs_on_exec(struct fs_call *c, const struct fs_trap *t) {
  struct fs_found f;
  if (fs_call_empty(c, t)) return FS_PASS;
  int route = fs_trap_find(c, t, &f);
  if (route < 0) return route;
  if (route == FS_IN) return execute_below(c, t, &f);
  if (route == FS_REDIRECT) return execute(c, t, fs_sys_openat(AT_FDCWD, f.real, O_PATH | O_CLOEXEC, 0), false);
  if (route != FS_OUTSIDE) return -ENOENT;
  look_at(c);
  return FS_PASS;
}
