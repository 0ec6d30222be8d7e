/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page of --report FILE.html (page.c). fs-launch/report.html is its frame and report.js draws
 * it; both are in the program (pagetext.S). In the frame, @TITLE@, @SUMMARY@, @SCRIPT@ and @DATA@ stand
 * for what is filled in.
 */
#ifndef FS_LAUNCH_PAGE_H
#define FS_LAUNCH_PAGE_H

#include <stdio.h>

#include "figures.h"

struct fs_launch;

/* Writes the page with the report's JSON of n bytes. */
void fs_page(const struct fs_launch *l, const char *headline, const char *json, size_t n, FILE *out);

#endif
