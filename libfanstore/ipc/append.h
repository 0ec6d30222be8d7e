/* SPDX-License-Identifier: BSD-3-Clause */
/* The call APPEND (ipc/call.h): a node writes to the backing file of a file of another node. */
#ifndef FS_IPC_APPEND_H
#define FS_IPC_APPEND_H

#include "util/base.h"

/* APPEND adds the tail's bytes to the end of the home's backing file. Without a tail it adds zeros
   for the caller to overwrite. The answer is a struct fs_appended. ENOENT, EIO, EDQUOT, ENOSPC. */
enum fs_append_flags {
  FS_APPEND_AT = 1, /* Write the tail at `off` instead. EREMCHG: bytes of the file are in segments. */
};
#define FS_APPEND_MAX (1u << 20) /* zeros */
#define FS_APPEND_DATA 16000u    /* bytes */
struct fs_call_append {
  uint64_t id;
  uint64_t call;  /* the id of this call */
  uint64_t bytes; /* number of bytes, not 0 */
  uint64_t off;   /* of the first byte, for APPEND_AT */
};
#define FS_APPEND_UNKNOWN UINT64_MAX /* offset in the answer of a repeated call */
struct fs_appended {
  uint64_t off;
  uint32_t home; /* the rank that appended the bytes */
  uint32_t unused;
};

#endif
