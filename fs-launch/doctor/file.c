/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds what in one ELF file would bypass the preloaded library (doctor.h). Each finding is one
 * line with advice. Cases that are known to be harmless are not reported: sanitizers read
 * /proc/self/maps by their own system calls, for example.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "code.h"
#include "doctor.h"
#include "util/util.h"

#define STATIC_HOW "run it with fs-launch --static, or on the files themselves"

static bool begins(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static const char *object_name(const struct fs_object *o) {
  return o->elf.soname ? o->elf.soname : base_name(o->path);
}

/* ---- what the loader does with it ---- */

/* Returns true if the loader ignores LD_PRELOAD because the program gets other rights than its
   caller. */
static bool gains_rights(const struct fs_object *o) {
  char caps[64];
  if ((o->mode & S_ISUID) && o->uid != getuid()) return true;
  if ((o->mode & S_ISGID) && (o->mode & S_IXGRP) && o->gid != getgid()) return true;
  return getuid() != 0 && getxattr(o->path, "security.capability", caps, sizeof(caps)) > 0;
}

static bool is_go(const struct fs_elf *e) {
  return e->deep && (fs_elf_note(e, "Go") || fs_elf_section(e, ".go.buildinfo"));
}

static bool foreign(const struct fs_object *o) {
  return !o->elf.deep || o->elf.machine != FS_ELF_MACHINE;
}

static bool is_musl(const struct fs_object *o) {
  uint64_t cursor = 0;
  if (o->elf.interp && strstr(o->elf.interp, "ld-musl")) return true;
  for (const char *name; (name = fs_elf_needed(&o->elf, &cursor)) != NULL;)
    if (begins(name, "libc.musl")) return true;
  return false;
}

const char *fs_doctor_hopeless(const struct fs_object *o) {
  if (foreign(o)) return o->elf.bits == 32 ? "is a 32-bit program" : "is for another processor";
  if (fs_elf_static(&o->elf)) return is_go(&o->elf) ? "is a static Go program" : "is statically linked";
  if (is_musl(o)) return "uses the musl C library";
  if (gains_rights(o)) return "is set-user-ID, set-group-ID or has file capabilities";
  return is_go(&o->elf) ? "is a Go program, which makes system calls by itself" : NULL;
}

/* Returns true if the path is the C library of this process. */
static bool same_as_ours(const char *path, const char *ours) {
  struct stat a, b;
  return stat(path, &a) == 0 && stat(ours, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void tell_loader(struct fs_doctor *d, const struct fs_object *o) {
  struct stat st;
  const char *interp = o->elf.interp;
  if (!interp || is_musl(o)) return;
  if (stat(interp, &st) < 0)
    fs_doctor_tell(d, FS_BYPASS, o->path, "its loader %s is not there; the program cannot start", interp);
  else if (!begins(base_name(interp), "ld-linux") && !begins(base_name(interp), "ld64.so.2"))
    fs_doctor_tell(d, FS_BYPASS, o->path,
                   "its loader is %s, not glibc's; it may not know LD_PRELOAD: rebuild it for glibc", interp);
  else if (!same_as_ours(interp, FS_LINKER))
    fs_doctor_tell(d, FS_MAYBE, o->path, "it has a glibc of its own (%s); libfanstore.so needs glibc 2.17 or newer",
                   interp);
}

/* Reports the kind of the file. Returns false if there is nothing else to report. */
static bool tell_kind(struct fs_doctor *d, const struct fs_object *o) {
  const struct fs_elf *e = &o->elf;
  bool program = fs_elf_program(e), go = is_go(e);
  if (foreign(o)) {
    if (program || d->libraries)
      fs_doctor_tell(d, program ? FS_BYPASS : FS_NOTE, o->path,
                     "%s; libfanstore.so is not, and the loader leaves it out: use a 64-bit one for this machine",
                     o->elf.bits == 32 ? "a 32-bit file" : "for another processor");
    return false;
  }
  if (fs_elf_static(e)) {
    fs_doctor_tell(d, FS_BYPASS, o->path, "statically linked%s%s: no library can be preloaded; " STATIC_HOW,
                   e->type == ET_DYN ? " (position-independent)" : "", go ? ", Go" : "");
    return false;
  }
  if (is_musl(o))
    fs_doctor_tell(d, FS_BYPASS, o->path,
                   "uses the musl C library: it dies of libfanstore.so, which is for glibc; " STATIC_HOW
                   ", or rebuild it for glibc");
  else if (go)
    fs_doctor_tell(d, FS_BYPASS, o->path, "a Go %s: it makes its system calls by itself; " STATIC_HOW,
                   program ? "program" : "library");
  if (program && gains_rights(o))
    fs_doctor_tell(d, FS_BYPASS, o->path,
                   "set-user-ID, set-group-ID or with file capabilities: the loader ignores LD_PRELOAD; run a copy "
                   "without these rights");
  tell_loader(d, o);
  return !go;
}

/* ---- what it imports and needs ---- */

struct imports {
  bool dlopen, dlsym, dlmopen, syscall;
};

static struct imports imports_of(const struct fs_elf *e) {
  struct imports im = {0};
  for (uint64_t i = 0; i < e->symbols; i++) {
    const char *name = fs_elf_import(e, i);
    if (!name) continue;
    im.dlopen |= strcmp(name, "dlopen") == 0;
    im.dlmopen |= strcmp(name, "dlmopen") == 0;
    im.dlsym |= strcmp(name, "dlsym") == 0;
    im.syscall |= strcmp(name, "syscall") == 0;
  }
  return im;
}

static bool asan_order_unchecked(void) {
  const char *options = getenv("ASAN_OPTIONS");
  return options && strstr(options, "verify_asan_link_order=0");
}

/* Finds the library by its ABI number: MPICH and its relatives (Intel MPI, MVAPICH, Cray) share 12,
   Open MPI has 40. */
const char *fs_doctor_other_mpi(const struct fs_object *o) {
  uint64_t cursor = 0;
  for (const char *name; (name = fs_elf_needed(&o->elf, &cursor)) != NULL;) {
    const char *base = base_name(name), *so = strstr(base, ".so.12");
    if (begins(base, "libmpich.so") || (begins(base, "libmpi") && so && (so[6] == '\0' || so[6] == '.'))) return name;
  }
  return NULL;
}

static void tell_mpi(struct fs_doctor *d, const struct fs_object *o) {
  const char *name = fs_doctor_other_mpi(o);
  if (!name) return;
  fs_doctor_tell(d, FS_NOTE, o->path,
                 "needs %s, of MPICH, Intel MPI or the like: with fs-launch --np, which uses Open MPI, each process is "
                 "rank 0 of 1; " FS_DOCTOR_MPI_HOW,
                 name);
}

static void tell_needed(struct fs_doctor *d, const struct fs_object *o) {
  uint64_t cursor = 0;
  for (const char *name; (name = fs_elf_needed(&o->elf, &cursor)) != NULL;) {
    if ((begins(name, "libasan.so") || begins(name, "libclang_rt.asan")) && !asan_order_unchecked())
      fs_doctor_tell(d, FS_BYPASS, o->path,
                     "needs %s, which wants to be the first library and ends the program; set "
                     "ASAN_OPTIONS=verify_asan_link_order=0",
                     base_name(name));
    if (begins(name, "liburing.so"))
      fs_doctor_tell(d, FS_MAYBE, o->path,
                     "uses io_uring (liburing): requests on files of a dataset fail with EBADF; switch it off in the "
                     "program, or by fs-launch --no-io-uring");
  }
}

/* ---- its code ---- */

/* Returns true if what this file opens or loads in this way is never in a dataset. */
static bool harmless(const struct fs_object *o, bool deepbind) {
  static const char *const calls[] = {"libasan.so", "libtsan.so",     "liblsan.so",    "libubsan.so",
                                      "libhwasan.", "libclang_rt.",   "libtcmalloc",   "libprofiler.so",
                                      "libunwind.", "libfanstore.so", "libjemalloc.so"};
  static const char *const binds[] = {"libmount.so"}; /* libcryptsetup */
  const char *name = object_name(o);
  for (size_t i = 0; i < (deepbind ? FS_ARRAY_LEN(binds) : FS_ARRAY_LEN(calls)); i++)
    if (begins(name, deepbind ? binds[i] : calls[i])) return true;
  /* Libraries whose purpose this is are reported where they are used. */
  return o->parent && (begins(name, "liburing.so") || begins(name, "libaio.so"));
}

/* clang links its sanitizers into the program, so their system calls look like the program's
   own. */
static bool has_sanitizer(const struct fs_elf *e) {
  static const char *const options[] = {"ASAN_OPTIONS", "TSAN_OPTIONS", "MSAN_OPTIONS", "UBSAN_OPTIONS",
                                        "LSAN_OPTIONS"};
  for (size_t i = 0; i < FS_ARRAY_LEN(options); i++)
    if (fs_elf_mentions(e, options[i])) return true;
  return false;
}

static void tell_calls(struct fs_doctor *d, const struct fs_object *o, const struct fs_code *c) {
  char list[400] = "";
  size_t at = 0;
  enum fs_code_kind kind;
  bool ring = c->uring_by_libc;
  const char *name;
  for (unsigned i = 0; (name = fs_code_call(i, &kind)) != NULL; i++) {
    if (!(c->calls >> i & 1)) continue;
    if (kind == FS_CODE_URING)
      ring = true;
    else if (at < sizeof(list))
      at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", at > 0 ? ", " : "", name);
  }
  if (at > 0)
    fs_doctor_tell(d, FS_MAYBE, o->path,
                   "its code seems to make system calls past libc: %s (found by a scan that may err); see with strace "
                   "what it opens so, or use fs-launch --static",
                   list);
  if (ring)
    fs_doctor_tell(
        d, FS_MAYBE, o->path,
        "its code seems to use io_uring or kernel AIO: requests on files of a dataset fail with EBADF; switch "
        "it off in the program, or io_uring by fs-launch --no-io-uring");
}

static void tell_code(struct fs_doctor *d, const struct fs_object *o) {
  struct imports im = imports_of(&o->elf);
  struct fs_code c;
  if (fs_code_scan(&o->elf, im.dlopen, im.syscall, &c) < 0) d->blind = true;
  if (c.calls && fs_elf_program(&o->elf) && has_sanitizer(&o->elf))
    fs_doctor_tell(d, FS_NOTE, o->path,
                   "has a sanitizer in it, whose system calls past libc hide others: not looked at");
  else if (!harmless(o, false))
    tell_calls(d, o, &c);
  if (c.deepbind && !harmless(o, true))
    fs_doctor_tell(d, FS_MAYBE, o->path,
                   "loads libraries with RTLD_DEEPBIND: their calls go to libc, not to libfanstore.so; load them "
                   "without it");
  if (im.dlmopen)
    fs_doctor_tell(d, FS_NOTE, o->path, "may load libraries by dlmopen, into a name space without libfanstore.so");
  if (im.dlopen && im.dlsym && fs_elf_mentions(&o->elf, "libc.so.6"))
    fs_doctor_tell(d, FS_NOTE, o->path, "opens libc.so.6 by name: functions that it looks up there bypass the mount");
}

void fs_doctor_object(struct fs_doctor *d, const struct fs_object *o) {
  if (fs_object_is_libc(o)) {
    if (o->parent && strcmp(object_name(o), "libc.so.6") == 0 && !begins(o->path, "/lib") && !begins(o->path, "/usr/"))
      fs_doctor_tell(d, FS_MAYBE, o->path,
                     "a C library of its own; libfanstore.so must be built for this one or an older one");
    return;
  }
  if (!tell_kind(d, o)) return;
  tell_needed(d, o);
  tell_mpi(d, o);
  tell_code(d, o);
}
