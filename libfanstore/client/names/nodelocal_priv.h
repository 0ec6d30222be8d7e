/* SPDX-License-Identifier: BSD-3-Clause */
/* What nodelocal.c and nodelocal_socket.c share. */
#ifndef FS_CLIENT_NAMES_NODELOCAL_PRIV_H
#define FS_CLIENT_NAMES_NODELOCAL_PRIV_H

#include "client/names/nodelocal.h"

#define FS_NL_HEX 17u /* 16 digits and a zero */
void fs_nl_hex(uint64_t v, char out[FS_NL_HEX]);
/* Makes a random name, which nobody else has. */
fs_err fs_nl_token(char out[FS_NL_HEX]);
struct fs_node;
/* Writes <backing directory>/dir/name to out; without a name, <backing directory>/dir. */
fs_err fs_nl_path(const struct fs_node *node, const char *dir, const char *name, size_t len, char out[PATH_MAX]);
/* Prepares to make f's name for this node. Writes its path to `real`, whose directory then exists.
   Returns -EEXIST if an output has the name. */
fs_err fs_nl_ready(const struct fs_found *f, char real[PATH_MAX]);

#endif
