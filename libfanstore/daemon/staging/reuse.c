/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes over partitions that other datasets have on this node. `fs-prepare pack --update` keeps
 * most partitions of a dataset, and the new dataset has another id. A partition of the same number,
 * size and checksum is linked from the other dataset's directory. Called once by fs_stage_prepare,
 * which holds .staging.
 */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "daemon/staging/dir.h"
#include "util/dir.h"
#include "util/sys.h"

static bool same_file(int a, const char *x, int b, const char *y) {
  struct stat p, q;
  return fstatat(a, x, &p, AT_SYMLINK_NOFOLLOW) == 0 && fstatat(b, y, &q, AT_SYMLINK_NOFOLLOW) == 0 &&
         p.st_ino == q.st_ino && p.st_dev == q.st_dev;
}

/* Links one partition, if the other dataset's stamp fits. The stamp is looked at again after the
   link, because the other dataset's daemon may replace its copy at any time. */
static void reuse_part(int dir, const struct fs_stage_item *item, int other, const uint8_t id[16]) {
  struct fs_stage_item theirs = *item;
  theirs.id = (const char *)id;
  if (!fs_stamp_fits(other, &theirs)) return;
  unlinkat(dir, item->temporary, 0);
  if (linkat(other, item->name, dir, item->temporary, 0) < 0) return;
  bool good = same_file(dir, item->temporary, other, item->name) && fs_stamp_fits(other, &theirs);
  /* Without a stamp, the copy is checked when it is staged. */
  if (good && renameat(dir, item->temporary, dir, item->name) == 0) fs_stamp_write(dir, item, false);
  unlinkat(dir, item->temporary, 0); /* rename leaves it if both names were links to one file */
}

static void reuse_from(const struct fs_stage *s, int other, const uint8_t id[16]) {
  for (uint32_t p = 0; p < s->index.nparts; p++) {
    struct fs_stage_item item = fs_stage_item_part(s, p);
    if (item.size > FS_PART_HEADER_SIZE && !fs_stamp_fits(s->dir_fd, &item)) reuse_part(s->dir_fd, &item, other, id);
  }
}

void fs_stage_reuse(const struct fs_stage *s) {
  uint8_t id[16];
  DIR *d = fs_opendirat(s->dir_fd, "..");
  if (!d) return;
  for (const struct dirent *e; (e = readdir(d)) != NULL;) {
    if (strlen(e->d_name) != 2 * sizeof(id) || fs_unhex(e->d_name, id, sizeof(id)) < 0) continue;
    if (memcmp(id, s->manifest.dataset_id, sizeof(id)) == 0) continue;
    FS_AUTO_CLOSE int other = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (other >= 0) reuse_from(s, other, id);
  }
  closedir(d);
}
