/* SPDX-License-Identifier: BSD-3-Clause */
/* The doctor's reader of ELF files: this very program, whole, cut off and with bytes changed. Its scan of code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../fs-launch/doctor/code.h"
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
  assert_string_equal(e.interp, FS_LINKER);
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

/* ---- system calls in code ---- */

struct program { /* one segment, and that is code */
  Elf64_Ehdr e;
  Elf64_Phdr p;
  uint8_t code[32];
};

static void scan(const uint8_t *code, size_t n, struct fs_code *out) {
  struct program *g = calloc(1, sizeof(*g));
  struct fs_elf e;
  size_t size = offsetof(struct program, code) + n;
  g->e = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                      .e_type = ET_EXEC,
                      .e_machine = FS_ELF_MACHINE,
                      .e_phoff = offsetof(struct program, p),
                      .e_phentsize = sizeof(g->p),
                      .e_phnum = 1};
  g->p = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_X, .p_offset = offsetof(struct program, code), .p_filesz = n};
  memcpy(g->code, code, n);
  uint8_t *file = malloc(size); /* of its own size, as above */
  memcpy(file, g, size);
  assert_int_equal(fs_elf_attach(&e, file, size), 0);
  fs_code_scan(&e, true, true, out);
  free(file);
  free(g);
}

#define CODE(name, ...)                                                                                                \
  {                                                                                                                    \
    name, sizeof((uint8_t[]){__VA_ARGS__}), {                                                                          \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
  }
#if defined(__x86_64__)
#define OPENAT 0xb8, 1, 1, 0, 0 /* mov eax, 257 */
#define SYSCALL 0x0f, 0x05
#elif defined(__aarch64__)
#define OPENAT 0x08, 0x07, 0x80, 0x52 /* mov w8, 56 */
#define SYSCALL 0x01, 0, 0, 0xd4      /* svc 0 */
#else
#define OPENAT 0x1e, 0x01, 0, 0x38 /* li r0, 286 */
#define SYSCALL 0x02, 0, 0, 0x44   /* sc */
#endif

static void test_syscalls(void **state) {
  (void)state;
  static const struct {
    const char *call; /* NULL: the number is not known */
    size_t n;
    uint8_t bytes[24];
  } cases[] = {
    CODE("openat", OPENAT, SYSCALL),
    CODE(NULL, SYSCALL), /* nothing before it */
#if defined(__aarch64__)
    CODE("openat", 0x08, 0x07, 0x80, 0xd2, SYSCALL), /* mov x8, 56 */
    CODE(NULL, 0x09, 0x07, 0x80, 0x52, SYSCALL),     /* mov w9, 56 */
#elif defined(__powerpc64__)
    CODE("openat", OPENAT, 0x78, 0x1b, 0x64, 0x7c, SYSCALL), /* mr r4, r3 */
    CODE(NULL, 0x1e, 0x01, 0x60, 0x38, SYSCALL),             /* li r3, 286 */
#else
    CODE("openat", 0x48, 0xc7, 0xc0, 1, 1, 0, 0, SYSCALL),                        /* mov rax, 257 */
    CODE("openat", 0x48, 0xb8, 1, 1, 0, 0, 0, 0, 0, 0, SYSCALL),                  /* movabs rax, 257 */
    CODE("read", 0x31, 0xc0, SYSCALL),                                            /* xor eax, eax */
    CODE("stat", 0x6a, 4, 0x58, SYSCALL),                                         /* push 4; pop rax */
    CODE("openat", OPENAT, 0x48, 0x89, 0xc7, SYSCALL),                            /* mov rdi, rax */
    CODE("openat", OPENAT, 0x48, 0x83, 0xf8, 1, SYSCALL),                         /* cmp rax, 1 */
    CODE("openat", OPENAT, 0x74, 2, SYSCALL),                                     /* je */
    CODE("openat", OPENAT, 0xc5, 0xf8, 0x77, SYSCALL),                            /* vzeroupper */
    CODE("openat", OPENAT, 0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x07, SYSCALL),          /* vmovdqu64 zmm0, [rdi] */
    CODE("openat", OPENAT, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, SYSCALL), /* nopw */
    CODE("openat", OPENAT, 0xc7, 0x84, 0x24, 1, 2, 3, 4, 5, 6, 7, 8, SYSCALL),    /* mov dword [rsp + x], y */
    CODE(NULL, 0x41, OPENAT, SYSCALL),                                            /* mov r8d, 257 */
    CODE(NULL, OPENAT, 0x0f, 0x94, 0xc0, SYSCALL),                                /* sete al */
    CODE(NULL, OPENAT, 0x48, 0x93, SYSCALL),                                      /* xchg rax, rbx */
    CODE(NULL, OPENAT, 0xf7, 0xf1, SYSCALL),                                      /* div ecx */
    CODE(NULL, OPENAT, 0x8a, 0x07, SYSCALL),                                      /* mov al, [rdi] */
    CODE(NULL, OPENAT, 0xe8, 0, 0, 0, 0, SYSCALL),                                /* call */
    CODE(NULL, OPENAT, 0xc3, SYSCALL),                                            /* ret */
    CODE(NULL, OPENAT, 0xeb, 0, SYSCALL),                                         /* jmp */
    CODE(NULL, OPENAT, 0x06, SYSCALL),                                            /* no instruction */
#endif
  };
  for (size_t i = 0; i < FS_ARRAY_LEN(cases); i++) {
    enum fs_code_kind kind;
    struct fs_code c;
    scan(cases[i].bytes, cases[i].n, &c);
    for (unsigned k = 0; fs_code_call(k, &kind); k++) {
      bool want = cases[i].call && strcmp(fs_code_call(k, &kind), cases[i].call) == 0;
      if ((c.calls >> k & 1) != want) fail_msg("case %zu: %s", i, fs_code_call(k, &kind));
    }
    if (c.unknown != !cases[i].call) fail_msg("case %zu: %u unknown", i, c.unknown);
    for (size_t n = 0; n < cases[i].n; n++) scan(cases[i].bytes, n, &c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_syscalls),
  };
  return cmocka_run_group_tests_name("elf", tests, load, unload);
}
