/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output directories and the numbers of output files (names.h). The table of numbers lies in the
 * memory of the open file descriptions (slot.h), so that inherited descriptors and current
 * directories keep their meaning.
 */
#include "client/names/names.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/data_priv.h"
#include "client/names/nodelocal_priv.h"
#include "client/names/overlay.h"
#include "client/node/ids.h"
#include "client/node/mountlist.h"
#include "util/util.h"

/* ---- directories ---- */

uint64_t fs_output_dir_id(uint32_t mount, uint32_t entry) {
  fs_err err;
  if (fs_is_vdir(entry)) return 0;
  if (fs_is_output(entry)) {
    const struct fs_output_node *n = fs_output_node(entry);
    return n ? atomic_load_explicit(&n->id, memory_order_relaxed) : 0;
  }
  const struct fs_dataset *ds = fs_dataset(mount, &err);
  return ds && ds->node ? FS_DATASET_DIR(ds->number, entry) : 0;
}

bool fs_output_maybe(const struct fs_node *node, uint64_t dir) {
  uint32_t bit = fs_mark_bit(dir);
  if (dir & FS_OUTPUT_ID) return true;
  return atomic_load_explicit(&node->ctl->outputs[bit / 64], memory_order_acquire) >> bit % 64 & 1;
}

/* Looks a name up in the records that the daemon shares. */
static enum fs_record_answer shared_look_up(uint64_t dir, const char *name, size_t len, struct fs_answer *a,
                                            const struct fs_record **r) {
  const struct fs_node *node = fs_names_node();
  struct fs_record_copy *copy = (struct fs_record_copy *)a->body;
  if (node == NULL) return FS_RECORD_ASK;
  *r = &copy->r;
  return fs_record_view_find(&node->records, fs_clock_ns(CLOCK_MONOTONIC_COARSE), dir, name, len, copy);
}

uint32_t fs_output_slot(uint64_t dir, const char *name, size_t len) {
  const struct fs_node *node = fs_names_node();
  return node == NULL ? 0 : fs_record_view_slot(&node->records, fs_clock_ns(CLOCK_MONOTONIC_COARSE), dir, name, len);
}

bool fs_output_record_at(uint32_t slot, uint64_t id, struct fs_record *r) {
  const struct fs_node *node = slot == 0 ? NULL : fs_names_node();
  return node != NULL && fs_record_view_at(&node->records, fs_clock_ns(CLOCK_MONOTONIC_COARSE), slot, r) &&
         r->id == id && r->name_len > 0;
}

fs_err fs_output_find(uint64_t dir, const char *name, size_t len, struct fs_answer *a, const struct fs_record **r) {
  struct fs_names_call c = {.op = FS_NAMES_LOOKUP, .tail_len = (uint16_t)len, .lookup.dir = dir};
  if (len > FS_RECORD_NAME_MAX) return -ENAMETOOLONG;
  enum fs_record_answer known = shared_look_up(dir, name, len, a, r);
  if (known != FS_RECORD_ASK) return known == FS_RECORD_FOUND ? 0 : -ENOENT;
  fs_err err = fs_names_ask(&c, name, "", a, r);
  return err == 0 && !*r ? -EIO : err;
}

const struct fs_entry *fs_names_entry(uint32_t mount, uint32_t dir, const char *name, size_t len) {
  fs_err err;
  const struct fs_index *ix = fs_is_output(dir) || fs_is_vdir(dir) ? NULL : fs_mount_ix(mount, &err);
  int64_t child = ix == NULL ? -ENOENT : fs_index_child(ix, dir, name, len);
  return child < 0 ? NULL : fs_index_entry(ix, (uint64_t)child);
}

fs_err fs_output_look_up(uint64_t dir, const char *name, size_t len, struct fs_answer *a, const struct fs_record **r) {
  fs_err err = fs_output_find(dir, name, len, a, r);
  return err == 0 && fs_is_whiteout(*r) ? -ENOENT : err;
}

uint64_t fs_output_tree(const struct fs_node *node) {
  return atomic_load_explicit(&node->ctl->tree, memory_order_acquire);
}

/*
 * Directories that were walked through: two words for each, found by a hash of directory, tree
 * number and name, or path. Both words hold parts of the hash, 107 bits in all, so that words of two
 * writers, or of another tree, do not fit together.
 */
#define FS_KNOWN_DIRS 1024u
#define FS_KNOWN_SHIFT 21
static struct {
  _Atomic uint64_t hash, rest; /* rest: 43 bits of the hash, then the number's place */
} known[FS_KNOWN_DIRS];

static void known_hash(const struct fs_known *k, uint64_t h[2]) {
  struct {
    uint64_t dir, tree, as;
    char name[FS_NAME_MAX + 1];
  } key = {.dir = k->dir, .tree = k->tree, .as = k->as};
  uint8_t hash[16];
  memcpy(key.name, k->name, k->len);
  fs_xxh3_128(&key, offsetof(__typeof__(key), name) + k->len, hash);
  memcpy(h, hash, sizeof(hash));
  h[1] = h[1] >> FS_KNOWN_SHIFT << FS_KNOWN_SHIFT;
}

uint32_t fs_output_known_dir(const struct fs_known *k) {
  uint64_t h[2];
  if (k->len > FS_NAME_MAX || (k->tree & FS_TREE_UNKNOWN)) return 0;
  known_hash(k, h);
  uint64_t rest = atomic_load_explicit(&known[h[0] % FS_KNOWN_DIRS].rest, memory_order_relaxed);
  if (atomic_load_explicit(&known[h[0] % FS_KNOWN_DIRS].hash, memory_order_relaxed) != h[0]) return 0;
  const uint64_t place = (1ull << FS_KNOWN_SHIFT) - 1;
  return (rest & ~place) == h[1] ? FS_OUTPUT_FIRST + (uint32_t)(rest & place) : 0;
}

void fs_output_note_dir(const struct fs_node *node, const struct fs_known *k, uint32_t entry) {
  uint64_t h[2];
  if (k->len > FS_NAME_MAX || (k->tree & FS_TREE_UNKNOWN) || k->tree != fs_output_tree(node)) return;
  known_hash(k, h);
  atomic_store_explicit(&known[h[0] % FS_KNOWN_DIRS].rest, h[1] | (entry - FS_OUTPUT_FIRST), memory_order_relaxed);
  atomic_store_explicit(&known[h[0] % FS_KNOWN_DIRS].hash, h[0], memory_order_relaxed);
}

/* ---- numbers ---- */

struct fs_output_node *fs_output_node(uint32_t entry) {
  struct fs_state *st = fs_state_attach(false);
  uint32_t place = entry - FS_OUTPUT_FIRST;
  struct fs_output_node *n = st && entry >= FS_OUTPUT_FIRST && place < FS_OUTPUT_NODES ? &st->out[place] : NULL;
  return n && atomic_load_explicit(&n->mode, memory_order_acquire) != 0 ? n : NULL;
}

/* Ids that follow each other, as those of one program's files do, have places beside each other: few
   pages of this table and of those of each process (outputs/opened.c) are touched. */
#define FS_NEIGHBOURS 64u
static_assert(FS_OUTPUT_NODES % FS_NEIGHBOURS == 0 && (FS_OUTPUT_NODES - 1) >> FS_KNOWN_SHIFT == 0, "places");

static uint32_t first_place(uint64_t id) {
  uint32_t group = (uint32_t)(fs_mix64(id / FS_NEIGHBOURS) % (FS_OUTPUT_NODES / FS_NEIGHBOURS));
  return group * FS_NEIGHBOURS + (uint32_t)(id % FS_NEIGHBOURS);
}

int64_t fs_output_number(const struct fs_record *r, uint32_t parent) {
  struct fs_state *st = fs_state_attach(true);
  uint32_t at = first_place(r->id);
  for (uint32_t tries = 0; st && tries < FS_OUTPUT_NODES / 2;
       tries++, at = (at + FS_NEIGHBOURS + 1) % FS_OUTPUT_NODES) {
    struct fs_output_node *n = &st->out[at];
    uint64_t id = atomic_load_explicit(&n->id, memory_order_acquire);
    if (id == 0 && atomic_compare_exchange_strong(&n->id, &id, r->id)) id = r->id;
    if (id != r->id) continue;
    atomic_store_explicit(&n->dir, r->dir, memory_order_relaxed);
    if (parent != FS_OUTPUT_PARENT_AS_IS) atomic_store_explicit(&n->parent, parent, memory_order_relaxed);
    atomic_store_explicit(&n->mode, r->mode, memory_order_release);
    return FS_OUTPUT_FIRST + (int64_t)at;
  }
  return -ENFILE;
}

/* Gives a removed directory a number. Where it was is not known, so it is its own parent. */
static int64_t number_removed(uint64_t id) {
  const struct fs_record r = {.id = id, .dir = id, .mode = S_IFDIR};
  int64_t number = fs_output_number(&r, FS_OUTPUT_PARENT_AS_IS);
  return number < 0 ? number : fs_output_number(&r, (uint32_t)number);
}

int64_t fs_output_number_of(uint64_t id) {
  struct fs_answer a;
  const struct fs_record *r;
  struct fs_names_call c = {.op = FS_NAMES_FIND, .find.id = id};
  uint32_t entry = FS_OUTPUT_FIRST + first_place(id);
  const struct fs_output_node *n = fs_output_node(entry);
  if (n && atomic_load_explicit(&n->id, memory_order_relaxed) == id) return entry;
  fs_err err = fs_names_ask(&c, "", "", &a, &r);
  if (err == -ENOENT) return number_removed(id);
  return err != 0 ? err : !r ? -EIO : fs_output_number(r, FS_OUTPUT_PARENT_AS_IS);
}

/* ---- paths ---- */

fs_err fs_output_path(const struct fs_node *node, uint64_t id, char out[PATH_MAX]) {
  size_t len = strlen(node->ctl->backing);
  const char dir[] = "/" FS_OUTPUT_DIR "/";
  if (len + sizeof(dir) + 16 >= PATH_MAX) return -ENAMETOOLONG;
  memcpy(out, node->ctl->backing, len);
  memcpy(out + len, dir, sizeof(dir) - 1);
  fs_nl_hex(id, out + len + sizeof(dir) - 1);
  return 0;
}

#define FS_OUTPUT_MOVES 8u /* renames that a call follows */

fs_err fs_output_ask_id(struct fs_names_call *c, struct fs_answer *a, const struct fs_record **r) {
  fs_err err = -EREMCHG;
  for (unsigned tries = 0; err == -EREMCHG && tries < FS_OUTPUT_MOVES; tries++) {
    err = fs_names_ask(c, "", "", a, r);
    if (err == -EREMCHG && a->n >= sizeof(uint64_t))
      memcpy(fs_call_at(c, fs_call_op(c)->dir), a->body, sizeof(uint64_t));
  }
  return err == -EREMCHG ? -EIO : err;
}

fs_err fs_output_tell(uint64_t *dir, uint64_t id, const struct stat *st, uint32_t flags) {
  struct fs_names_call c = {.op = FS_NAMES_PUBLISH,
                            .flags = flags,
                            .publish = {.dir = *dir,
                                        .id = id,
                                        .size = (uint64_t)st->st_size,
                                        .mode = st->st_mode,
                                        .mtime = st->st_mtim.tv_sec,
                                        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec}};
  struct fs_answer a;
  const struct fs_record *r;
  fs_err err = fs_output_ask_id(&c, &a, &r);
  *dir = c.publish.dir;
  return err == -ENOENT ? 0 : err;
}

fs_err fs_output_ask_number(uint32_t entry, struct fs_names_call *c, struct fs_answer *a, const struct fs_record **r) {
  struct fs_output_node *n = fs_output_node(entry);
  if (!n) return -EUCLEAN;
  *fs_call_at(c, fs_call_op(c)->dir) = atomic_load_explicit(&n->dir, memory_order_relaxed);
  fs_err err = fs_output_ask_id(c, a, r);
  if (err == 0) atomic_store_explicit(&n->dir, fs_call_dir(c), memory_order_relaxed);
  return err;
}

fs_err fs_output_record_of(uint32_t entry, struct fs_answer *a, const struct fs_record **r) {
  const struct fs_output_node *n = fs_output_node(entry);
  struct fs_names_call c = {.op = FS_NAMES_LOOKUP};
  if (n) c.lookup.id = atomic_load_explicit(&n->id, memory_order_relaxed);
  fs_err err = fs_output_ask_number(entry, &c, a, r);
  return err == 0 && !*r ? -EIO : err;
}

void fs_output_permits(uint32_t entry, uint32_t mode, uint64_t tree) {
  struct fs_output_node *n = fs_output_node(entry);
  if (n) atomic_store_explicit(&n->permits, tree << 16 | (mode & 0xffff), memory_order_relaxed);
}

/* A change of the owner's permissions of a directory changes the tree's number, so a mode of the
   same number is current. */
fs_err fs_output_mode(uint32_t entry, uint32_t *mode) {
  struct fs_answer a;
  const struct fs_record *r;
  const struct fs_node *node;
  struct fs_output_node *n = fs_output_node(entry);
  if (!n) return -EUCLEAN;
  *mode = atomic_load_explicit(&n->mode, memory_order_relaxed);
  if (!S_ISDIR(*mode) || fs_caller_is_root() || (node = fs_names_node()) == NULL) return 0;
  uint64_t tree = fs_output_tree(node), permits = atomic_load_explicit(&n->permits, memory_order_relaxed);
  if (permits != 0 && permits >> 16 == tree << 16 >> 16 && !(tree & FS_TREE_UNKNOWN)) {
    *mode = permits & 0xffff;
    return 0;
  }
  fs_err err = fs_output_record_of(entry, &a, &r);
  if (err != 0) return err == -ENOENT ? 0 : err; /* the directory was removed */
  *mode = r->mode;
  fs_output_permits(entry, r->mode, tree);
  return 0;
}

/*
 * Sets the number of the directory `dir` that n's record is in. In most cases n was found by it. If
 * n was renamed since, to a directory that no process here has been in, that directory gets a
 * number now. Its own parent is asked for when a walk goes further up.
 */
static fs_err parent_number(uint32_t mount, struct fs_output_node *n, uint64_t dir, uint32_t *parent) {
  *parent = atomic_load_explicit(&n->parent, memory_order_relaxed);
  if (fs_output_dir_id(mount, *parent) == dir) return 0;
  if (dir & FS_OUTPUT_ID) {
    int64_t number = fs_output_number_of(dir);
    if (number < 0) return (fs_err)number;
    *parent = (uint32_t)number;
  } else {
    if (fs_output_dir_id(mount, (uint32_t)dir) != dir) return -EUCLEAN;
    *parent = (uint32_t)dir;
  }
  atomic_store_explicit(&n->parent, *parent, memory_order_relaxed);
  return 0;
}

/* Returns the last known directory if the directory was removed or nobody answers. */
uint32_t fs_output_up(uint32_t mount, uint32_t entry) {
  struct fs_answer a;
  const struct fs_record *r;
  struct fs_output_node *n = fs_output_node(entry);
  uint32_t parent = n ? atomic_load_explicit(&n->parent, memory_order_relaxed) : FS_ROOT;
  if (n && fs_output_record_of(entry, &a, &r) == 0) (void)parent_number(mount, n, r->dir, &parent);
  return parent;
}

/* Builds the path from its end to its beginning, name by name. */
fs_ssize fs_output_path_below(uint32_t mount, uint32_t *entry, char *buf, size_t size) {
  struct fs_answer a;
  const struct fs_record *r;
  size_t at = size;
  for (unsigned depth = 0; fs_is_output(*entry); depth++) {
    struct fs_output_node *n = fs_output_node(*entry);
    fs_err err = n ? fs_output_record_of(*entry, &a, &r) : -EIO;
    if (err != 0) return err;
    if (depth > PATH_MAX / 2 || (size_t)r->name_len + 1 >= at) return -ENAMETOOLONG;
    at -= r->name_len;
    memcpy(buf + at, fs_record_name(r), r->name_len);
    buf[--at] = '/';
    err = parent_number(mount, n, r->dir, entry);
    if (err != 0) return err;
  }
  return (fs_ssize)(size - at);
}

#define FS_OUTPUT_GONE_TRIES 100u
#define FS_OUTPUT_GONE_QUICK 20u /* without a pause: others remove or replace it */

bool fs_output_gone(const char *real, unsigned tries) {
  struct stat st;
  bool missing = real && real[0] != '\0' && fs_sys_fstatat(AT_FDCWD, real, &st, AT_SYMLINK_NOFOLLOW) == -ENOENT;
  errno = ENOENT;
  /* The missing name may be another one of the call, or an empty one, which names nothing. */
  if (!missing || tries < FS_OUTPUT_GONE_QUICK) return tries < FS_OUTPUT_GONE_TRIES;
  if (tries < FS_OUTPUT_GONE_TRIES) {
    (void)FS_SYS2(SYS_nanosleep, &(struct timespec){.tv_nsec = 1000000}, NULL);
    return true;
  }
  fs_count(FS_C_ERRORS, 1);
  FS_NOTE("an output file cannot be read: its bytes are gone from this node's local directory (", real, ")");
  errno = EIO;
  return false;
}

/* Replaces the path of a backing file that is a link by the link's target. A call that must not
   follow links would not find the file otherwise. */
static void staged_path(struct fs_found *f) {
  char target[PATH_MAX];
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, f->real, target, sizeof(target) - 1);
  if (n <= 0 || target[0] != '/') {
    f->out.flags &= ~(uint32_t)FS_RECORD_STAGED_IN; /* the file has been copied since */
    return;
  }
  memcpy(f->real, target, (size_t)n);
  f->real[n] = '\0';
}

int fs_output_found(struct fs_found *f, unsigned flags) {
  const struct fs_node *node = fs_names_node();
  if (node == NULL) return -ENOENT;
  if (S_ISREG(f->out.mode) && (f->out.flags & FS_RECORD_STAGED_IN) && (flags & FS_CHANGES)) {
    /* If the open is refused afterwards by the file's mode, the bytes must still be there. */
    fs_err err = fs_output_own(f->out.id, (flags & FS_EMPTIES) && (f->out.mode & S_IWUSR));
    if (err != 0) return err;
    f->out.flags &= ~(uint32_t)FS_RECORD_STAGED_IN;
  }
  const bool here = f->out.home == fs_names_rank(node) && !(f->out.flags & FS_RECORD_SHARED);
  if (S_ISREG(f->out.mode) && here && !(flags & FS_XATTR)) {
    fs_err err = fs_output_path(node, f->out.id, f->real);
    if (err == 0 && (f->out.flags & FS_RECORD_STAGED_IN)) staged_path(f);
    return err != 0 ? err : FS_REDIRECT;
  }
  int64_t number = flags & FS_LOOK ? FS_OUTPUT_RECORD : fs_output_number(&f->out, f->entry);
  f->entry = (uint32_t)number;
  return number < 0 ? (int)number : FS_IN;
}

fs_ssize fs_output_readlink(uint32_t entry, char *buf, size_t n) {
  struct fs_answer a;
  const struct fs_record *r;
  fs_err err = fs_output_record_of(entry, &a, &r);
  if (err != 0) return err;
  if (!S_ISLNK(r->mode)) return -EINVAL;
  n = FS_MIN(n, r->target_len);
  memcpy(buf, fs_record_target(r), n);
  return (fs_ssize)n;
}

/* ---- permissions ---- */

fs_err fs_output_may_make(const struct fs_found *f, uint64_t *dir) {
  const struct fs_node *node = fs_names_node();
  uint32_t mode;
  *dir = node == NULL ? 0 : fs_output_dir_id(f->mount, f->entry);
  if (*dir == 0) return -EROFS;
  if (fs_caller_is_root()) return 0;
  fs_err err = fs_entry_mode(f->mount, f->entry, &mode);
  return err != 0 ? err : mode & S_IWUSR ? 0 : -EACCES;
}

fs_err fs_output_refused(const struct fs_found *f, uint64_t dir, bool made) {
  struct fs_answer a;
  const struct fs_record *r;
  fs_err err = fs_overlay_is_datasets(f);
  if (err == 0) err = fs_output_look_up(dir, f->name, f->name_len, &a, &r);
  if (err > 0) err = 0;
  if (made) return err == 0 ? -EEXIST : err == -ENOENT ? -EACCES : err;
  return err == 0 ? -EACCES : err;
}
