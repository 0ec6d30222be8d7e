/* SPDX-License-Identifier: BSD-3-Clause */
/* ELF files from anywhere: everything that the doctor reads of one stays inside its bytes, and ends. */
#include <stdlib.h>
#include <string.h>

#include "../../fs-launch/doctor/code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void names(const struct fs_elf *e) {
  uint64_t cursor = 0, address, end = e->strings_size;
  const char *name;
  for (unsigned i = 0; (name = fs_elf_needed(e, &cursor)) != NULL && i < 100; i++)
    if (name < e->strings || name + strlen(name) >= e->strings + end) abort();
  for (uint64_t i = 0; i < e->symbols && i < 1000; i++) (void)fs_elf_import(e, i);
  for (unsigned n = 0; n < 4 && fs_elf_slot(e, "dlopen", n, &address); n++) continue;
  if (e->soname && strlen(e->soname) > end) abort();
  if (e->rpath && strlen(e->rpath) > end) abort();
  if (e->runpath && strlen(e->runpath) > end) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fs_elf e;
  struct fs_code code;
  struct fs_elf_code piece;
  if (fs_elf_attach(&e, data, size) < 0) return 0;
  (void)fs_elf_program(&e), (void)fs_elf_static(&e);
  (void)fs_elf_note(&e, "Go"), (void)fs_elf_section(&e, ".go.buildinfo"), (void)fs_elf_mentions(&e, "libc.so.6");
  names(&e);
  for (uint64_t cursor = 0; fs_elf_code(&e, &cursor, &piece);)
    if (piece.p < data || piece.n > size || piece.p + piece.n > data + size) abort();
  fs_code_scan(&e, true, true, &code);
  return 0;
}
