/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libfanstore.so offers to programs that know of it. None need to: the library works on unmodified programs by
 * LD_PRELOAD. Look the functions up with dlsym(RTLD_DEFAULT, ...), so that a program also runs without it.
 */
#ifndef FANSTORE_FANSTORE_H
#define FANSTORE_FANSTORE_H

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "MAJOR.MINOR.PATCH". */
const char *fanstore_version(void);

#ifdef __cplusplus
}
#endif
#endif
