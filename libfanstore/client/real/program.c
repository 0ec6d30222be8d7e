/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks at a program's first bytes as the kernel's loader does: "#!" leads to the interpreter, an
 * ELF file names its dynamic linker. An ordinary program costs one open and one pread. Everything
 * read is bounds-checked. See program.h.
 */
#include "client/real/program.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "ipc/node.h"
#include "util/machine.h"
#include "util/sys.h"

#define FS_LIBRARY_NAME "libfanstore"
#define FS_HEAD 2048
#define FS_SCRIPTS 5 /* a script's interpreter may be a script; this is the kernel's limit */
#define FS_INTERP_MAX 256

const char *fs_program_value(char *const envp[], const char *name) {
  size_t len = strlen(name);
  for (size_t i = 0; envp != NULL && envp[i] != NULL; i++)
    if (strncmp(envp[i], name, len) == 0 && envp[i][len] == '=') return envp[i] + len + 1;
  return NULL;
}

bool fs_program_names_us(char *const envp[]) {
  const char *preload = fs_program_value(envp, "LD_PRELOAD");
  return preload != NULL && strstr(preload, FS_LIBRARY_NAME) != NULL && fs_program_value(envp, FS_ENV_DATASET) != NULL;
}

/* Returns whether the program changes user. The dynamic linker then ignores LD_PRELOAD. */
static bool changes_user(int fd) {
  struct stat st;
  char capability[64];
  if (fs_sys_fstat(fd, &st) != 0) return false;
  if ((st.st_mode & S_ISUID) && st.st_uid != (uid_t)FS_SYS1(SYS_getuid, 0)) return true;
  if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != (gid_t)FS_SYS1(SYS_getgid, 0))
    return true;
  return FS_SYS1(SYS_getuid, 0) != 0 &&
         FS_SYS4(SYS_fgetxattr, fd, "security.capability", capability, sizeof(capability)) > 0;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

static bool is_a_linker(const char *path) {
  return strncmp(base_name(path), "ld-linux", 8) == 0 || strcmp(base_name(path), "ld64.so.2") == 0; /* ppc64le */
}

/* Returns the dynamic linker that this process was started with, or NULL if it is not known. */
static const char *own_linker(void) {
  const Elf64_Phdr *p = (const Elf64_Phdr *)getauxval(AT_PHDR); /* NOLINT(performance-no-int-to-ptr) */
  uint64_t n = getauxval(AT_PHNUM), base = 0;
  if (p == NULL || getauxval(AT_PHENT) != sizeof(*p)) return NULL;
  for (uint64_t i = 0; i < n; i++) {
    if (p[i].p_type == PT_PHDR) base = (uint64_t)(uintptr_t)p - p[i].p_vaddr;
    if (p[i].p_type == PT_INTERP) return (const char *)(uintptr_t)(base + p[i].p_vaddr); /* NOLINT */
  }
  return NULL;
}

static enum fs_loads linker_loads(const char *name) {
  const char *own = own_linker();
  if (strncmp(base_name(name), "ld-musl", 7) == 0) return FS_LOADS_ENDS;
  if (!is_a_linker(name)) return FS_LOADS_NOT;
  return own != NULL && strcmp(own, name) == 0 ? FS_LOADS : FS_LOADS_MAYBE;
}

/* Decides by the program's dynamic linker. */
static enum fs_loads elf_loads(int fd, const char *path, const char *head, size_t n) {
  Elf64_Ehdr e;
  char name[FS_INTERP_MAX];
  if (n < sizeof(e)) return FS_LOADS_MAYBE;
  memcpy(&e, head, sizeof(e));
  if (e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_machine != FS_ELF_MACHINE) return FS_LOADS_NOT;
  if (e.e_phentsize != sizeof(Elf64_Phdr)) return FS_LOADS_MAYBE;
  for (uint64_t i = 0; i < e.e_phnum && i < 128; i++) {
    Elf64_Phdr p;
    uint64_t at = e.e_phoff + i * sizeof(p);
    if (at <= n && n - at >= sizeof(p))
      memcpy(&p, head + at, sizeof(p));
    else if (fs_sys_pread(fd, &p, sizeof(p), at) != sizeof(p))
      return FS_LOADS_MAYBE;
    if (p.p_type != PT_INTERP) continue;
    size_t len = FS_MIN(p.p_filesz, sizeof(name) - 1);
    if (p.p_offset <= n && n - p.p_offset >= len)
      memcpy(name, head + p.p_offset, len);
    else if (fs_sys_pread(fd, name, len, p.p_offset) != (fs_ssize)len)
      return FS_LOADS_MAYBE;
    name[len] = '\0';
    return linker_loads(name);
  }
  /* The file may be the dynamic linker itself, called by name. */
  return is_a_linker(path) ? FS_LOADS_MAYBE : FS_LOADS_NOT;
}

/* Cuts the interpreter out of a line like "#! /bin/sh -x". */
static char *interpreter(char *line, size_t n) {
  line[FS_MIN(n, FS_INTERP_MAX)] = '\0';
  char *p = line + 2 + strspn(line + 2, " \t");
  p[strcspn(p, " \t\n")] = '\0';
  return p;
}

enum fs_loads fs_program_loads(int dirfd, const char *path, char elf[PATH_MAX]) {
  char head[FS_HEAD + 1];
  if (elf != NULL) elf[0] = '\0';
  for (int depth = 0; path != NULL && depth <= FS_SCRIPTS; depth++) {
    FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) return FS_LOADS_MAYBE;
    fs_ssize n = fs_sys_pread(fd, head, FS_HEAD, 0);
    if (n < 4) return FS_LOADS_MAYBE;
    if (memcmp(head, ELFMAG, SELFMAG) == 0)
      return changes_user(fd) ? FS_LOADS_NOT : elf_loads(fd, path, head, (size_t)n);
    if (head[0] != '#' || head[1] != '!') return FS_LOADS_MAYBE;
    path = interpreter(head, (size_t)n);
    if (elf != NULL) strcpy(elf, path);
    dirfd = AT_FDCWD;
  }
  return FS_LOADS_MAYBE;
}

bool fs_program_loads_us(int dirfd, const char *path, char *const envp[]) {
  return fs_program_names_us(envp) && fs_program_loads(dirfd, path, NULL) > FS_LOADS_NOT;
}

const char *fs_program_find(const char *file, char out[PATH_MAX]) {
  const char *dirs = getenv("PATH");
  size_t len = strlen(file);
  for (const char *p = dirs != NULL ? dirs : "/bin:/usr/bin"; strchr(file, '/') == NULL && *p != '\0';) {
    size_t n = strcspn(p, ":");
    if (n + len + 2 <= PATH_MAX) {
      memcpy(out, p, n);
      out[n] = '/';
      memcpy(out + (n > 0 ? n + 1 : 0), file, len + 1);
      if (FS_SYS3(SYS_faccessat, AT_FDCWD, out, X_OK) == 0) return out;
    }
    p += n + (p[n] == ':');
  }
  return file;
}
