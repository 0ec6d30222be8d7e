/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes outputs a source of blocks (blocks/fetch.h): reads the contents of a client's snapshot from
 * the file's home. Called by blocks/fetch.c through the table in modules.c, in the MPI thread.
 */
#include "daemon/blocks/fetch.h"
#include "daemon/outputs/backing.h"
#include "daemon/outputs/open_files.h"
#include "util/util.h"

/* Finds a block of the snapshot: its size is the file's size when the client got the snapshot. */
static fs_err fs_output_resolve(const struct fs_daemon *d, uint64_t key, struct fs_block *b) {
  const struct fs_snapshot *h = fs_open_files_find(d, FS_OUTPUT_KEY_SNAPSHOT(key));
  uint64_t most = FS_OUTPUT_KEY_BYTES(key), offset = FS_OUTPUT_KEY_BLOCK(key) * most;
  if (!h || offset >= h->size) return -EINVAL;
  *b = (struct fs_block){.offset = offset, .stored_len = (uint32_t)FS_MIN(h->size - offset, most)};
  return 0;
}

static void fs_output_begin(struct fs_daemon *d, struct fs_fetch *f) {
  const struct fs_snapshot *h = fs_open_files_find(d, FS_OUTPUT_KEY_SNAPSHOT(f->key));
  f->file = h->id;
  f->list = h->list;
  fs_open_files_fetch(d, FS_OUTPUT_KEY_SNAPSHOT(f->key), true);
}

static void fs_output_done(struct fs_daemon *d, struct fs_fetch *f) {
  fs_open_files_fetch(d, FS_OUTPUT_KEY_SNAPSHOT(f->key), false);
}

/* Asks the file's home, once: no other node has the block. */
static void fs_output_route(struct fs_daemon *d, struct fs_fetch *f) {
  uint32_t home = fs_home_of(d, f->file);
  if (f->tried != 0 || !fs_peer_usable(d, home)) {
    fs_fetch_finish(d, f, -EREMOTEIO, 0);
    return;
  }
  f->tried = 1;
  fs_peer_enqueue(d, home, f);
}

const struct fs_block_source fs_output_blocks = {
    .resolve = fs_output_resolve, .begin = fs_output_begin, .done = fs_output_done, .route = fs_output_route};
