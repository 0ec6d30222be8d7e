/* SPDX-License-Identifier: BSD-3-Clause */
/* Listing a directory that is open already. Not for the preloaded library, which makes its own streams. */
#ifndef FS_UTIL_DIR_H
#define FS_UTIL_DIR_H

#include <dirent.h>

/* A stream of its own over a directory below `at` ("." for at itself). NULL with errno. */
DIR *fs_opendirat(int at, const char *path);

#endif
