/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines on stderr for what the user must know: bad configuration, damaged or missing data. Called
 * on failing paths only, from any context: one raw writev, no stdio, no allocation. A process
 * writes FS_NOTES_MAX lines at most.
 */
#include <string.h>

#include "client/data_priv.h"

#define FS_NOTES_MAX 8u
#define FS_NOTE_PARTS 24

void fs_note(const char *const *parts) {
  struct iovec iov[FS_NOTE_PARTS + 2];
  unsigned n = 0;
  uint32_t told = atomic_fetch_add_explicit(&fs_self()->told, 1, memory_order_relaxed);
  if (told >= FS_NOTES_MAX) return;
  iov[n++] = (struct iovec){(void *)"fanstore: ", 10};
  for (; *parts && n < FS_NOTE_PARTS; parts++) iov[n++] = (struct iovec){(void *)*parts, strlen(*parts)};
  if (told == FS_NOTES_MAX - 1) iov[n++] = (struct iovec){(void *)" (no more lines from this process)", 34};
  iov[n++] = (struct iovec){(void *)"\n", 1};
  FS_SYS3(SYS_writev, 2, iov, n);
}

void fs_note_no_dataset(const char *path, const char *effect, const char *on) {
  struct stat st;
  if (fs_run_unseen()) return; /* the user was told that this program sees other files */
  if (fs_run_set() && fs_sys_fstatat(AT_FDCWD, path, &st, 0) < 0)
    FS_NOTE(path, ": this program sees neither the job's dataset nor its node's copy (a container?): bind what",
            " fs-launch env --container prints", effect, on);
  else if (fs_sys_fstatat(AT_FDCWD, path, &st, 0) < 0 || !S_ISDIR(st.st_mode))
    FS_NOTE(path, ": no such dataset", effect, on);
  else
    FS_NOTE(path, ": no such dataset: it has no manifest or no index; if it is not packed yet, run: fs-prepare pack ",
            path, " DATASET", effect, on);
}

char *fs_u64_text(uint64_t v, char out[FS_U64_TEXT]) {
  char *p = out + FS_U64_TEXT - 1;
  *p = '\0';
  do *--p = (char)('0' + v % 10);
  while ((v /= 10) > 0);
  return p;
}

const char *fs_err_text(fs_err err) {
  switch (err) {
  case -ENOENT:
    return "no such file";
  case -EACCES:
  case -EPERM:
    return "permission denied";
  case -EBADMSG:
    return "checksum or size differs";
  case -EPROTONOSUPPORT:
    return "made by a newer version of FanStore; use that";
  case -EPFNOSUPPORT:
    return "made by an older version of FanStore; pack it again";
  case -EPROTO:
    return "not the dataset that was expected";
  case -EUCLEAN:
    return "index is damaged";
  case -EINVAL:
    return "not well-formed";
  case -ENOMEM:
    return "out of memory";
  case -EMFILE:
  case -ENFILE:
    return "too many open files";
  case -ETIMEDOUT:
    return "no answer in time";
  case -EHOSTDOWN:
    return "this node's daemon does not answer";
  case -ENODEV:
    return "there is no daemon";
  case -EREMOTEIO:
    return "none of them gave it";
  case -ENOBUFS:
    return "the cache is full";
  case -EAGAIN:
    return "too many requests";
  case -ESHUTDOWN:
    return "the job ends";
  case -EDQUOT:
    return "the limit of outputs is reached";
  case -ENOSPC:
    return "no space left";
  default:
    return "input/output error";
  }
}
