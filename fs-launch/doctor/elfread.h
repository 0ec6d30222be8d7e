/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads ELF files for the doctor: the kind of file, its demands on the loader, its imports, its
 * code. The file is untrusted: every offset is checked against the existing bytes. No allocation,
 * no state; the caller owns the bytes. Beyond the first header only 64-bit little-endian files are
 * read.
 */
#ifndef FS_LAUNCH_DOCTOR_ELFREAD_H
#define FS_LAUNCH_DOCTOR_ELFREAD_H

#include <elf.h>

#include "util/base.h"
#include "util/machine.h"

struct fs_elf {
  const uint8_t *data;
  uint64_t size;
  uint8_t bits; /* 32 or 64 */
  bool little;
  uint16_t type, machine;
  bool deep; /* 64-bit little-endian: the fields below were read */
  uint64_t phoff, shoff, phnum, shnum, shstr;
  const char *interp; /* NULL: none */
  bool dynamic;
  uint64_t dyn_off, dyn_count;
  const char *strings; /* strings of the dynamic section; NULL: none */
  uint64_t strings_size;
  uint64_t symbols_off, symbols; /* offset in the file; their number, with all undefined ones */
  uint64_t flags_1;
  const char *soname, *rpath, *runpath;
};

/* Reads the headers. Returns 0, -ENOEXEC (no ELF file) or -EBADMSG (a damaged one). */
fs_err fs_elf_attach(struct fs_elf *e, const void *data, uint64_t size);
/* Returns true for an executable that needs no loader. */
bool fs_elf_static(const struct fs_elf *e);
/* Returns true if the file was linked as a program, not as a library. */
bool fs_elf_program(const struct fs_elf *e);
/* Returns the next DT_NEEDED from *cursor (0 at the start), or NULL. */
const char *fs_elf_needed(const struct fs_elf *e, uint64_t *cursor);
/* Returns the name of symbol i if it is an import, else NULL. */
const char *fs_elf_import(const struct fs_elf *e, uint64_t i);
bool fs_elf_section(const struct fs_elf *e, const char *name);
/* Returns true if the file has a note with this owner. */
bool fs_elf_note(const struct fs_elf *e, const char *owner);
struct fs_elf_code {
  const uint8_t *p;
  uint64_t n, address;
};
/* Stores the next piece of code from *cursor (0 at the start): executable sections, or segments if
   there are no sections. Returns false at the end. */
bool fs_elf_code(const struct fs_elf *e, uint64_t *cursor, struct fs_elf_code *out);
/* Stores where the loader writes the address of an import: its n-th slot. Returns false if there
   are no more slots. */
bool fs_elf_slot(const struct fs_elf *e, const char *import, unsigned n, uint64_t *address);
/* Returns true if this text occurs outside the code. */
bool fs_elf_mentions(const struct fs_elf *e, const char *text);

#endif
