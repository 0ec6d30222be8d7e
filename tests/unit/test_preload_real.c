/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The real functions behind the wrappers are libc's, in the version that a program linked today would get: where a
 * function has several, an older one behaves differently.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "preload/preload.h"

/* After the headers that it needs. */
#include <cmocka.h>

struct expected {
  const char *name;
  void *found;
};

static void real_functions_are_the_default_versions(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); /* a sanitizer's own functions come between */
#endif
  void *libc = FS_REAL(dlopen)("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  int wrong = 0, known = 0;
  fs_real_resolve();
  const struct expected all[] = {
#define X(ret, name, params, args) {#name, (void *)fs_real.name},
      FS_SYMBOLS(X)
#undef X
  };
  assert_non_null(libc);
  for (size_t i = 0; i < FS_ARRAY_LEN(all); i++) {
    void *real = dlsym(libc, all[i].name);
    if (real == NULL) continue; /* newer than this libc: the wrapper says ENOSYS */
    known++;
    if (all[i].found == real) continue;
    print_error("%s is not libc's default version\n", all[i].name);
    wrong++;
  }
  assert_int_equal(wrong, 0);
  assert_true(known > 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(real_functions_are_the_default_versions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
