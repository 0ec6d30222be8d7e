/* SPDX-License-Identifier: BSD-3-Clause */
/* The doctor's reader of ELF files and of x86-64 code: this very program, whole, cut off and with bytes changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../fs-launch/doctor/code.h"
#include "../../fs-launch/doctor/x86.h"
#include "util/util.h"

static uint8_t *g_file;
static size_t g_size;

static int load(void **state) {
  (void)state;
  FILE *f = fopen("/proc/self/exe", "re");
  g_file = malloc(1u << 23);
  g_size = f && g_file ? fread(g_file, 1, 1u << 23, f) : 0;
  if (f) fclose(f);
  return g_size > 1000 ? 0 : -1;
}
static int unload(void **state) {
  (void)state;
  free(g_file);
  return 0;
}

static void use(const struct fs_elf *e) {
  uint64_t cursor = 0, address = 0;
  struct fs_elf_code piece;
  for (unsigned i = 0; i < 1000 && fs_elf_needed(e, &cursor); i++) continue;
  for (uint64_t i = 0; i < e->symbols && i < 10000; i++) (void)fs_elf_import(e, i);
  (void)fs_elf_note(e, "Go"), (void)fs_elf_section(e, ".text"), (void)fs_elf_mentions(e, "text");
  (void)fs_elf_slot(e, "malloc", 0, &address);
  cursor = 0;
  while (fs_elf_code(e, &cursor, &piece)) assert_true(piece.p >= e->data && piece.p + piece.n <= e->data + e->size);
}

static void test_whole(void **state) {
  (void)state;
  struct fs_elf e;
  uint64_t cursor = 0, address = 0;
  bool libc = false, imported = false;
  assert_int_equal(fs_elf_attach(&e, g_file, g_size), 0);
  assert_true(e.deep && e.bits == 64 && e.dynamic && fs_elf_program(&e) && !fs_elf_static(&e));
  assert_non_null(strstr(e.interp, "ld-linux"));
  for (const char *name; (name = fs_elf_needed(&e, &cursor)) != NULL;) libc |= strcmp(name, "libc.so.6") == 0;
  for (uint64_t i = 0; i < e.symbols; i++) {
    const char *name = fs_elf_import(&e, i);
    imported |= name && strcmp(name, "fopen") == 0;
  }
  assert_true(libc && imported);
  assert_true(fs_elf_section(&e, ".text") && !fs_elf_section(&e, ".go.buildinfo"));
  assert_true(fs_elf_note(&e, "GNU") && !fs_elf_note(&e, "Go"));
  assert_true(fs_elf_slot(&e, "fopen", 0, &address) && address != 0);
  static const char text[] __attribute__((used)) = "a text that only this program has";
  char other[sizeof(text)];
  memcpy(other, text, sizeof(text));
  assert_true(fs_elf_mentions(&e, text));
  other[0] = 'b'; /* nowhere in the file */
  assert_true(!fs_elf_mentions(&e, other));
  use(&e);
}

/* Each in memory of its own size, so that a sanitizer or valgrind sees a step beyond it. */
static void test_damaged(void **state) {
  (void)state;
  uint32_t seed = 1;
  for (size_t n = 0; n < 3000; n += n < 200 ? 1 : 97) {
    uint8_t *copy = malloc(n + 1);
    struct fs_elf e;
    memcpy(copy, g_file, n);
    if (fs_elf_attach(&e, copy, n) == 0) use(&e);
    free(copy);
  }
  for (unsigned i = 0; i < 300; i++) {
    size_t n = FS_MIN(g_size, (size_t)20000);
    uint8_t *copy = malloc(n);
    struct fs_elf e;
    memcpy(copy, g_file, n);
    for (unsigned k = 0; k < 8; k++) {
      seed = seed * 1664525 + 1013904223;
      copy[16 + (seed >> 8) % 1500] = (uint8_t)(seed >> 4);
    }
    if (fs_elf_attach(&e, copy, n) == 0) use(&e);
    free(copy);
  }
  struct fs_elf e;
  assert_int_equal(fs_elf_attach(&e, "#!/bin/sh\n#################", 27), -ENOEXEC);
  assert_int_equal(fs_elf_attach(&e, "", 0), -ENOEXEC);
}

#define INSN(...)                                                                                                      \
  {                                                                                                                    \
    sizeof((uint8_t[]){__VA_ARGS__}), {                                                                                \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
  }

static void test_x86(void **state) {
  (void)state;
  static const struct {
    unsigned length;
    uint8_t bytes[16];
  } insn[] = {
      INSN(0x90),                                        /* nop */
      INSN(0xb8, 1, 1, 0, 0),                            /* mov eax, 257 */
      INSN(0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8),          /* movabs rax */
      INSN(0x66, 0xb8, 1, 1),                            /* mov ax */
      INSN(0x48, 0x8b, 0x44, 0x24, 8),                   /* mov rax, [rsp + 8] */
      INSN(0x8b, 0x05, 1, 2, 3, 4),                      /* mov eax, [rip + x] */
      INSN(0xf6, 0xc2, 1),                               /* test dl, 1 */
      INSN(0xf7, 0xd8),                                  /* neg eax */
      INSN(0x0f, 0x84, 1, 2, 3, 4),                      /* je */
      INSN(0x0f, 0x05),                                  /* syscall */
      INSN(0x66, 0x0f, 0x3a, 0x0f, 0xc1, 8),             /* palignr */
      INSN(0xc5, 0xf8, 0x77),                            /* vzeroupper */
      INSN(0xc4, 0xe2, 0x7d, 0x58, 0x05, 1, 2, 3, 4),    /* vpbroadcastd ymm0, [rip + x] */
      INSN(0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x07),          /* vmovdqu64 zmm0, [rdi] */
      INSN(0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0), /* nopw cs:[rax + rax] */
      INSN(0xc7, 0x84, 0x24, 1, 2, 3, 4, 5, 6, 7, 8),    /* mov dword [rsp + x], y */
  };
  struct fs_x86 x;
  for (size_t i = 0; i < FS_ARRAY_LEN(insn); i++) {
    fs_x86_decode(insn[i].bytes, sizeof(insn[i].bytes), &x);
    assert_int_equal(x.length, insn[i].length);
    for (unsigned n = 0; n < insn[i].length; n++) {
      uint8_t *cut = malloc(n + 1);
      memcpy(cut, insn[i].bytes, n);
      fs_x86_decode(cut, n, &x);
      assert_int_equal(x.length, 0);
      free(cut);
    }
  }
  fs_x86_decode((const uint8_t[]){0x48, 0x89, 0xc7}, 3, &x);
  assert_true(x.sets_rdi && !x.sets_rax && !x.leaves);
  fs_x86_decode((const uint8_t[]){0x31, 0xc0}, 2, &x);
  assert_true(x.sets_rax);
  fs_x86_decode((const uint8_t[]){0xc3}, 1, &x);
  assert_true(x.length == 1 && x.leaves);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_x86),
  };
  return cmocka_run_group_tests_name("elf", tests, load, unload);
}
