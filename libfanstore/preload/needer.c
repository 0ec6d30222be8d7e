/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads a library by a name of the caller's choice. The loader finds a loaded library by the name
 * that was searched for, which dlopen of a path does not set. So a needer is loaded: an ELF file in
 * memory that needs the name and has a run path to its directory. The loader then does the search
 * and keeps the name. depend.c calls this, before dlopen.
 */
#include <elf.h>
#include <stddef.h>
#include <sys/mman.h>

#include "preload/depend.h"
#include "preload/preload.h"
#include "util/machine.h"
#include "util/util.h"

enum { NEEDER_LOAD, NEEDER_DYNAMIC, NEEDER_STACK, NEEDER_SEGMENTS };

struct needer {
  Elf64_Ehdr head;
  Elf64_Phdr segment[NEEDER_SEGMENTS];
  Elf64_Dyn dynamic[6];
  char strings[1 + FS_SONAME_MAX + PATH_MAX];
};

static void fill(struct needer *s, const char *dir, size_t dir_len, const char *name) {
  size_t name_len = strlen(name), at = offsetof(struct needer, dynamic);
  *s = (struct needer){.head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                                .e_type = ET_DYN,
                                .e_machine = FS_ELF_MACHINE,
                                .e_version = EV_CURRENT,
                                .e_phoff = offsetof(struct needer, segment),
                                .e_ehsize = sizeof(Elf64_Ehdr),
                                .e_phentsize = sizeof(Elf64_Phdr),
                                .e_phnum = NEEDER_SEGMENTS}};
  s->segment[NEEDER_LOAD] = (Elf64_Phdr){
      .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_filesz = sizeof(*s), .p_memsz = sizeof(*s), .p_align = 65536};
  s->segment[NEEDER_DYNAMIC] = (Elf64_Phdr){.p_type = PT_DYNAMIC,
                                            .p_flags = PF_R | PF_W,
                                            .p_offset = at,
                                            .p_vaddr = at,
                                            .p_filesz = sizeof(s->dynamic),
                                            .p_memsz = sizeof(s->dynamic),
                                            .p_align = 8};
  s->segment[NEEDER_STACK] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
  const Elf64_Dyn dynamic[] = {{DT_NEEDED, {1}},
                               {DT_RUNPATH, {1 + name_len + 1}},
                               {DT_STRTAB, {offsetof(struct needer, strings)}},
                               {DT_STRSZ, {sizeof(s->strings)}},
                               {DT_SYMTAB, {offsetof(struct needer, strings)}}, /* without a hash table nobody looks */
                               {DT_NULL, {0}}};
  memcpy(s->dynamic, dynamic, sizeof(dynamic));
  memcpy(s->strings + 1, name, name_len);
  memcpy(s->strings + 1 + name_len + 1, dir, dir_len);
}

void *fs_library_load_named(const char *path, const char *name) {
  char proc[32];
  const char *slash = strrchr(path, '/');
  if (slash == NULL || slash == path || strcmp(slash + 1, name) != 0 || strlen(name) >= FS_SONAME_MAX) return NULL;
  /* A colon ends a directory of a run path. */
  if (memchr(path, ':', (size_t)(slash - path)) != NULL) return NULL;
  FS_AUTO_CLOSE fs_fd fd = (fs_fd)FS_SYS2(SYS_memfd_create, "fanstore-needer", MFD_CLOEXEC);
  struct needer s;
  fill(&s, path, (size_t)(slash - path), name);
  if (fd < 0 || fs_write_full(fd, &s, sizeof(s)) != 0) return NULL;
  snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
  void *needer = FS_REAL(dlopen)(proc, RTLD_LAZY), *library = NULL;
  if (needer != NULL) library = FS_REAL(dlopen)(name, RTLD_LAZY | RTLD_NOLOAD);
  if (needer != NULL) dlclose(needer);
  return library;
}
