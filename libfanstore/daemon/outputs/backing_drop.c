/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a removed file's bytes. A program that removes or replaces a file waits until the
 * backing file is unlinked: then fstat of an open descriptor gives st_nlink 0, and the space is
 * free. A program on the file's home unlinks it itself. For another node's program the I/O pool
 * does, and then the question is answered that waits for it: a DROP with FS_DROP_AWAIT, a BACKUP with
 * FS_BACKUP_DROP, or a REMOVE. If nobody asks, the pool unlinks it a moment later. All runs in the
 * MPI thread.
 */
#include <stdlib.h>

#include "daemon/outputs/backing.h"

#define FS_LEAVING_NS 20000000ull
#define FS_LEAVING_TOGETHER 64u /* unlinked by one turn of the pool, some before they are due */

/* An item of one of two lists. On `dropping`, the caller `asked` waits for the unlink. `leaving`
   is sorted by `due`, the time of the unlink. */
struct fs_backing_end {
  struct fs_chain chain;
  struct fs_asked asked;
  uint64_t id, due;
};

/* Searches from the end, because most callers ask for the last one. */
static struct fs_backing_end *fs_leaving_find(const struct fs_daemon *d, uint64_t id) {
  const struct fs_chain *all = &d->backing_files->leaving;
  for (struct fs_chain *l = all->prev; l != all; l = l->prev) {
    struct fs_backing_end *e = FS_ITEM(l, struct fs_backing_end, chain);
    if (e->id == id) return e;
  }
  return NULL;
}

static void fs_leaving_push(struct fs_daemon *d, struct fs_backing_end *e) {
  e->due = d->now + FS_LEAVING_NS;
  fs_chain_push(&d->backing_files->leaving, &e->chain);
}

static uint64_t fs_leaving_take(struct fs_backing_end *e) {
  uint64_t id = e->id;
  fs_chain_drop(&e->chain);
  free(e);
  return id;
}

void fs_backing_unlink_soon(struct fs_daemon *d, uint64_t id) {
  struct fs_backing_end *e = malloc(sizeof(*e));
  if (!e) {
    fs_backing_unlink(d, &id, 1);
    return;
  }
  *e = (struct fs_backing_end){.id = id};
  fs_leaving_push(d, e);
}

bool fs_backing_leaving(struct fs_daemon *d, uint64_t id) {
  if (!fs_backing_mine(d, id)) return false;
  fs_backing_dropped_soon(d, id); /* the directory's primary may report it only later */
  struct fs_backing_end *e = fs_leaving_find(d, id);
  if (!e) return false;
  fs_chain_drop(&e->chain);
  fs_leaving_push(d, e);
  return true;
}

void fs_backing_was_unlinked(struct fs_daemon *d, uint64_t id) {
  struct fs_backing_end *e = fs_leaving_find(d, id);
  if (e) fs_backing_ended(d, fs_leaving_take(e));
}

static struct fs_backing_end *fs_leaving_first(const struct fs_daemon *d, uint64_t when) {
  const struct fs_chain *all = &d->backing_files->leaving;
  struct fs_backing_end *e = fs_chain_empty(all) ? NULL : FS_ITEM(all->next, struct fs_backing_end, chain);
  return e && e->due <= when ? e : NULL;
}

/* Most of these files are gone: their programs have unlinked them. So each turn of the pool takes many. */
void fs_backing_drop_timers(struct fs_daemon *d) {
  struct fs_backing_end *e;
  while (fs_leaving_first(d, d->now)) {
    uint64_t id[FS_LEAVING_TOGETHER];
    uint32_t n = 0;
    while (n < FS_LEAVING_TOGETHER && (e = fs_leaving_first(d, d->now + FS_LEAVING_NS / 2)) != NULL)
      id[n++] = fs_leaving_take(e);
    fs_backing_unlink(d, id, n);
  }
}

bool fs_backing_dropping(struct fs_daemon *d, struct fs_asked a, uint64_t id) {
  const struct fs_backing_file *f = fs_backing_find(d, id);
  struct fs_backing_end *e = f && f->gone ? malloc(sizeof(*e)) : NULL;
  if (!e) return false; /* unlinked already, or still open on a node: no wait */
  *e = (struct fs_backing_end){.asked = a, .id = id};
  fs_chain_push(&d->backing_files->dropping, &e->chain);
  e = fs_leaving_find(d, id);
  if (e) id = fs_leaving_take(e);
  if (e) fs_backing_unlink(d, &id, 1);
  return true;
}

void fs_backing_drop_done(struct fs_daemon *d, uint64_t id) {
  bool any = false;
  for (struct fs_chain *l = d->backing_files->dropping.next, *next; l != &d->backing_files->dropping; l = next) {
    struct fs_backing_end *e = FS_ITEM(l, struct fs_backing_end, chain);
    next = l->next;
    if (e->id != id) continue;
    fs_chain_drop(l);
    fs_ns_answer(d->ns, e->asked, 0, NULL, 0);
    free(e);
    any = true;
  }
  if (any) fs_ns_run_local(d->ns, d->now);
}
