/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reader of ELF files, as much as the doctor needs: what kind of file it is, what it asks of the loader, which
 * symbols it imports, where its code is. The file is untrusted: every offset is checked against the bytes that are
 * there. No allocation, no state; the bytes are the caller's. Beyond the first header only 64-bit little-endian files
 * are read.
 */
#ifndef FS_LAUNCH_DOCTOR_ELFREAD_H
#define FS_LAUNCH_DOCTOR_ELFREAD_H

#include <elf.h>

#include "util/base.h"

#if defined(__x86_64__)
#define FS_ELF_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define FS_ELF_MACHINE EM_AARCH64
#else
#define FS_ELF_MACHINE EM_NONE
#endif

struct fs_elf {
  const uint8_t *data;
  uint64_t size;
  uint8_t bits; /* 32 or 64 */
  bool little;
  uint16_t type, machine;
  bool deep; /* 64-bit little-endian: all below was read */
  uint64_t phoff, shoff, phnum, shnum, shstr;
  const char *interp; /* NULL: none */
  bool dynamic;
  uint64_t dyn_off, dyn_count;
  const char *strings; /* of the dynamic section; NULL: none */
  uint64_t strings_size;
  uint64_t symbols_off, symbols; /* in the file; their number, the undefined ones at least */
  uint64_t flags, flags_1;
  const char *soname, *rpath, *runpath;
};

/* 0; -ENOEXEC: no ELF file; -EBADMSG: a damaged one. */
fs_err fs_elf_attach(struct fs_elf *e, const void *data, uint64_t size);
/* An executable that needs no loader. */
bool fs_elf_static(const struct fs_elf *e);
/* Was it linked as a program (as opposed to a library)? */
bool fs_elf_program(const struct fs_elf *e);
/* The next DT_NEEDED from *cursor (0 at the start), or NULL. */
const char *fs_elf_needed(const struct fs_elf *e, uint64_t *cursor);
/* Name of symbol i when it is an import, else NULL. */
const char *fs_elf_import(const struct fs_elf *e, uint64_t i);
bool fs_elf_section(const struct fs_elf *e, const char *name);
/* A note with this owner. */
bool fs_elf_note(const struct fs_elf *e, const char *owner);
struct fs_elf_code {
  const uint8_t *p;
  uint64_t n, address;
};
/* The next piece of code from *cursor (0 at the start): executable sections, or segments where there are none. */
bool fs_elf_code(const struct fs_elf *e, uint64_t *cursor, struct fs_elf_code *out);
/* Where the loader puts the address of an import: its n-th slot into *address. False: no more. */
bool fs_elf_slot(const struct fs_elf *e, const char *import, unsigned n, uint64_t *address);
/* Do these bytes stand anywhere in what is not code? */
bool fs_elf_mentions(const struct fs_elf *e, const char *text);

#endif
