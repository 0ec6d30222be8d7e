/* SPDX-License-Identifier: BSD-3-Clause */
/* Which programs load the library: by their headers, scripts, modes and environments; and headers that lie. */
#include "client/real/program.h"

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/machine.h"

#define CHECK(x) assert_true(x)

static char *const with[] = {(char *)"LD_PRELOAD=/x/libfanstore.so", (char *)"FANSTORE_DATASET=/ds", NULL};
static char dir[64];

struct program {
  Elf64_Ehdr e;
  Elf64_Phdr p[2];
  char interp[64];
};

static struct program ordinary(const char *interp) {
  struct program p = {
      .e = {.e_type = ET_DYN, .e_phoff = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2}};
  memcpy(p.e.e_ident, ELFMAG, SELFMAG);
  p.e.e_ident[EI_CLASS] = ELFCLASS64;
  p.e.e_machine = FS_ELF_MACHINE;
  p.p[0].p_type = PT_LOAD;
  p.p[1] =
      (Elf64_Phdr){.p_type = PT_INTERP, .p_offset = offsetof(struct program, interp), .p_filesz = strlen(interp) + 1};
  strcpy(p.interp, interp);
  return p;
}

static const char *file(const char *name, const void *data, size_t n) {
  static char path[256];
  snprintf(path, sizeof(path), "%s/%s", dir, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
  CHECK(fd >= 0 && write(fd, data, n) == (ssize_t)n && close(fd) == 0);
  return path;
}

static bool loads(const struct program *p, size_t n) {
  return fs_program_loads_us(AT_FDCWD, file("program", p, n), with);
}

static void test_headers(void **state) {
  (void)state;
  struct program p = ordinary(FS_LINKER), q = p;
  CHECK(loads(&p, sizeof(p)));
  p = ordinary("/lib/ld-musl-x86_64.so.1");
  CHECK(!loads(&p, sizeof(p)));
  q.e.e_phnum = 1; /* static */
  CHECK(!loads(&q, sizeof(q)));
  q = ordinary("/lib/ld-linux.so.2");
  q.e.e_ident[EI_CLASS] = ELFCLASS32;
  CHECK(!loads(&q, sizeof(q)));
  q = ordinary("/lib/ld-linux-aarch64.so.1");
  q.e.e_machine = EM_RISCV;
  CHECK(!loads(&q, sizeof(q)));
  CHECK(fs_program_loads_us(AT_FDCWD, "/proc/self/exe", with));
}

/* Nothing beyond the file is looked at; what cannot be told is taken for ordinary. */
static void test_lies(void **state) {
  (void)state;
  struct program p = ordinary(FS_LINKER);
  for (size_t n = 0; n < sizeof(p); n += 7) loads(&p, n);
  uint64_t odd[] = {0, 1, sizeof(p) - 1, sizeof(p), 4096, INT64_MAX, UINT64_MAX - 55, UINT64_MAX};
  for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
    struct program q = p;
    q.e.e_phoff = odd[i];
    q.e.e_phnum = 0xffff;
    loads(&q, sizeof(q));
    q = p;
    q.p[1].p_offset = odd[i];
    loads(&q, sizeof(q));
    q = p;
    q.p[1].p_filesz = odd[i];
    loads(&q, sizeof(q));
  }
  CHECK(fs_program_loads_us(AT_FDCWD, "/nonexistent", with));
  CHECK(fs_program_loads_us(AT_FDCWD, file("text", "echo hello\n", 11), with));
}

static void test_scripts(void **state) {
  char text[300];
  (void)state;
  struct program p = ordinary("none");
  p.e.e_phnum = 0;
  char name[256];
  strcpy(name, file("static", &p, sizeof(p)));
  snprintf(text, sizeof(text), "#! \t%s -x\nline\n", name);
  strcpy(name, file("script", text, strlen(text)));
  CHECK(!fs_program_loads_us(AT_FDCWD, name, with));
  snprintf(text, sizeof(text), "#!%s", name);
  CHECK(!fs_program_loads_us(AT_FDCWD, file("script2", text, strlen(text)), with));
  CHECK(fs_program_loads_us(AT_FDCWD, file("script3", "#!/bin/sh\n", 10), with));
  snprintf(text, sizeof(text), "#!%s/loop\n", dir);
  CHECK(fs_program_loads_us(AT_FDCWD, file("loop", text, strlen(text)), with));
  memset(text, 'x', sizeof(text));
  memcpy(text, "#!", 2);
  CHECK(fs_program_loads_us(AT_FDCWD, file("long", text, sizeof(text)), with));
}

static void test_environment(void **state) {
  (void)state;
  char *const *none = NULL, *const empty[] = {NULL}, *const no_preload[] = {with[1], NULL},
              *const no_data[] = {with[0], NULL};
  CHECK(!fs_program_loads_us(AT_FDCWD, "/bin/sh", none) && !fs_program_loads_us(AT_FDCWD, "/bin/sh", empty));
  CHECK(!fs_program_loads_us(AT_FDCWD, "/bin/sh", no_preload) && !fs_program_loads_us(AT_FDCWD, "/bin/sh", no_data));
  CHECK(fs_program_loads_us(AT_FDCWD, "/bin/sh", with));
  struct program p = ordinary(FS_LINKER);
  const char *path = file("set", &p, sizeof(p));
  bool root = getuid() == 0;
  CHECK(chmod(path, 04755) == 0 && fs_program_loads_us(AT_FDCWD, path, with)); /* one's own */
  if (root)
    CHECK(chown(path, 65534, 65534) == 0 && chmod(path, 04755) == 0 && !fs_program_loads_us(AT_FDCWD, path, with));
  if (root) CHECK(chmod(path, 02755) == 0 && !fs_program_loads_us(AT_FDCWD, path, with));
  if (root) CHECK(chmod(path, 02745) == 0 && fs_program_loads_us(AT_FDCWD, path, with));
}

static void test_find(void **state) {
  char out[PATH_MAX];
  (void)state;
  setenv("PATH", "/nonexistent::/usr/bin:/bin", 1);
  CHECK(strcmp(fs_program_find("env", out), "/usr/bin/env") == 0);
  CHECK(strcmp(fs_program_find("./env", out), "./env") == 0 && strcmp(fs_program_find("no-such", out), "no-such") == 0);
  CHECK(chdir(dir) == 0 && file("here", "#!/bin/sh\n", 10) != NULL &&
        strcmp(fs_program_find("here", out), "here") == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_headers), cmocka_unit_test(test_lies),
                                     cmocka_unit_test(test_scripts), cmocka_unit_test(test_environment),
                                     cmocka_unit_test(test_find)};
  const char *tmp = getenv("TMPDIR");
  snprintf(dir, sizeof(dir), "%.40s/programXXXXXX", tmp != NULL ? tmp : "/tmp");
  if (mkdtemp(dir) == NULL) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  if (strncmp(dir, "/tmp/", 5) == 0 || tmp != NULL) {
    char command[100];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    if (system(command) != 0) return 1;
  }
  return failed;
}
