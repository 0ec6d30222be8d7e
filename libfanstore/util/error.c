/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of an error, for messages of the tools and of the library. No state. */
#include <dlfcn.h>
#include <string.h>

#include "util/util.h"

/* strerrordesc_np is looked up because libcs before glibc 2.32 lack it. strerror translates. */
const char *fs_error_text(int err) {
  const char *(*describe)(int) = (const char *(*)(int))dlsym(RTLD_DEFAULT, "strerrordesc_np");
  const char *text = describe != NULL ? describe(err) : strerror(err);
  return text != NULL ? text : "unknown error";
}
