/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mremap and remap_file_pages of a mapping that shows the node's copy of a file (copies.c). What
 * they would show is filled before. /proc/self/maps says which file a mapping shows, so nothing is
 * remembered of mappings. preload calls this. Slow; no locks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/outputs/outputs.h"
#include "client/real/making.h"
#include "ipc/local.h"

_Atomic uint32_t fs_copies_mapped;

/* Parses a name like "NUMBER-ENTRY.c", which " (deleted)" may follow. */
static bool parse_name(const char *name, char ending, unsigned *number, unsigned *entry) {
  char end[2];
  return sscanf(name, "%9u-%10u.%1[a-z]", number, entry, end) == 3 && end[0] == ending;
}

static bool is_entry(uint32_t mount, const uint8_t *id, unsigned number, unsigned entry) {
  fs_err err;
  const struct fs_dataset *ds = fs_dataset(mount, &err);
  if (!ds || entry >= ds->ix.nentries) return false;
  return id ? memcmp(ds->ix.hdr->dataset_id, id, 16) == 0 : ds->node && ds->number == number;
}

/* Finds the entry of a made file's name. id is the dataset's, if the directory is of that dataset
   alone. If id is NULL, the name has the dataset's number. */
static bool made_entry(const char *name, char ending, const uint8_t *id, uint32_t *mount, uint32_t *entry) {
  unsigned number, e;
  if (!parse_name(name, ending, &number, &e) || strchr(name, ' ')) return false;
  *entry = e;
  for (*mount = 0; *mount < fs_mounts(); ++*mount)
    if (is_entry(*mount, id, number, e)) return true;
  return false;
}

bool fs_made_name(const char *path, char ending, uint32_t *mount, uint32_t *entry) {
  char memory[PATH_MAX];
  uint8_t id[16];
  const char *name = fs_alone_parse(path, id);
  const struct fs_node *node = fs_node_attach();
  const char *dirs[] = {node ? node->ctl->backing : "", memory};
  if (name) return made_entry(name, ending, id, mount, entry);
  if (!node || fs_memory_backing(node->ctl->backing, memory, sizeof(memory)) < 0) memory[0] = '\0';
  for (unsigned i = 0; i < FS_ARRAY_LEN(dirs); i++) {
    size_t len = strlen(dirs[i]);
    if (len > 0 && strncmp(path, dirs[i], len) == 0 && path[len] == '/')
      return made_entry(path + len + 1, ending, NULL, mount, entry);
  }
  return false;
}

/* A parsed line "begin-end perms offset device inode path". */
struct maps_line {
  uint64_t begin, end, off, inode;
  const char *path;
};

static bool parse_line(char *line, struct maps_line *l) {
  char *p = line;
  l->begin = strtoull(p, &p, 16);
  if (*p++ != '-') return false;
  l->end = strtoull(p, &p, 16);
  if (*p != ' ' || strlen(p) < 6) return false;
  l->off = strtoull(p + 6, &p, 16);
  l->path = strchr(p, '/');
  p += strspn(p, " ");
  p += strcspn(p, " ");
  l->inode = strtoull(p, NULL, 10);
  return true;
}

/* Finds the line of the mapping at this address. Returns 0, or -ENOENT if there is none. buf holds
   a line. */
static fs_err find_mapping(const void *addr, char *buf, size_t size, struct maps_line *l) {
  size_t have = 0;
  FS_AUTO_CLOSE fs_fd fd = fs_open_read("/proc/self/maps");
  for (fs_ssize n; fd >= 0 && (n = fs_sys_read(fd, buf + have, size - 1 - have)) > 0;) {
    char *line = buf, *end;
    have += (size_t)n;
    for (buf[have] = '\0'; (end = strchr(line, '\n')) != NULL; line = end + 1) {
      *end = '\0';
      if (parse_line(line, l) && l->begin <= (uintptr_t)addr && (uintptr_t)addr < l->end) return 0;
    }
    have -= (size_t)(line - buf);
    memmove(buf, line, have);
    if (have >= size - 1) return -ENOMEM;
  }
  return fd < 0 ? -ENOMEM : -ENOENT;
}

/* Returns whether the path looks like a copy in a directory that is not this node's, or has another
   name. More of such a copy would show zeros. */
static bool looks_made(const char *path) {
  unsigned number, e;
  return (strstr(path, "/" FS_LOCAL_BACKING "job-") != NULL || strstr(path, "/" FS_ALONE_DIR) != NULL) &&
         parse_name(strrchr(path, '/') + 1, FS_MADE_MAPPED, &number, &e);
}

fs_err fs_data_remap(const void *addr, uint64_t off, uint64_t n) {
  char buf[2 * PATH_MAX], dir[PATH_MAX];
  struct maps_line l;
  struct stat st;
  struct fs_making m;
  uint32_t mount, entry;
  if (FS_LIKELY(atomic_load_explicit(&fs_copies_mapped, memory_order_relaxed) == 0)) return 0;
  fs_err err = find_mapping(addr, buf, sizeof(buf), &l);
  if (err < 0) return err == -ENOENT ? 0 : err;
  if (!l.path) return 0;
  if (!fs_made_name(l.path, FS_MADE_MAPPED, &mount, &entry)) return looks_made(l.path) ? -ENOMEM : 0;
  if (off == FS_REMAP_HERE) off = l.off + ((uintptr_t)addr - l.begin);
  err = fs_making_set(&m, mount, entry);
  if (err < 0 || off >= m.size) return err;
  size_t len = (size_t)(strrchr(l.path, '/') - l.path);
  if (len >= sizeof(dir)) return -ENOMEM;
  memcpy(dir, l.path, len);
  dir[len] = '\0';
  FS_AUTO_CLOSE fs_fd fd = fs_copies_get(&m, dir, off, n > m.size - off ? m.size : off + n);
  /* The path may lead elsewhere by now, in another root directory for example. */
  return fd >= 0 && fs_sys_fstat(fd, &st) == 0 && st.st_ino == l.inode ? 0 : -ENOMEM;
}
