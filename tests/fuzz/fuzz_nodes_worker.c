/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 1 of a pack over two nodes, which hears a lead: it walks, scans, encodes, and writes partitions. The
 * lead's messages are those of a real pack, as fuzz_nodes.h says.
 */
#include "../../fs-prepare/nodes/walk.c" /* its threads are ended here */

#include "fuzz_nodes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fs_nodes rank;
static uint32_t seen[FS_NODES_KINDS]; /* messages of each kind that the rank has sent */
static uint32_t tasks_done;
static uint64_t stored[FS_BATCH_CHUNKS], number;
static uint32_t chunks;

static void hear_found(struct fs_in *m) {
  fs_in_get(m, 8);
  while (m->at < m->n) {
    const uint32_t record = fs_in_u32(m);
    if (record != FS_FOUND_DONE) fs_in_text(m);
    if (record == FS_FOUND_ITEM) fs_in_get(m, 40);
    if (record == FS_FOUND_ITEM || record == FS_FOUND_PROBLEM) fs_in_text(m);
    if (record == FS_FOUND_PROBLEM) fs_in_u32(m);
    if (record == FS_FOUND_TASK) fs_in_get(m, 8);
    if (record == FS_FOUND_TASK) fs_in_get(m, fs_in_u32(m));
    if (record == FS_FOUND_DONE) fs_in_get(m, 32);
    if (record == FS_FOUND_DONE) fs_in_text(m);
    tasks_done += record == FS_FOUND_DONE;
  }
}

static void hear_encoded(struct fs_in *m) {
  number = fs_in_u64(m);
  fs_in_u32(m);
  chunks = fs_in_u32(m);
  for (uint32_t i = 0; i < chunks && i < FS_BATCH_CHUNKS; i++) {
    stored[i] = 0;
    if (fs_in_u32(m) != 0) return;
    fs_in_u32(m);
    stored[i] = fs_in_u64(m);
    fs_in_get(m, 24);
    fs_in_get(m, fs_in_u32(m) * 12ul);
  }
}

static void on_message(uint32_t to, struct fs_in *m) {
  const uint32_t kind = fs_in_u32(m);
  if (kind >= FS_NODES_KINDS || (to != 0 && kind != FS_NODES_BYTES)) abort();
  seen[kind]++;
  if (kind == FS_NODES_FOUND) hear_found(m);
  if (kind == FS_NODES_ENCODED) hear_encoded(m);
}

/* Lets the rank work until it has sent such a message. FS_NODES_KINDS: until it has taken all. */
static bool work_until(uint32_t kind, uint32_t times) {
  const uint64_t until = fs_now_ns() + (nedits > 0 ? QUIET_NS : STUCK_NS);
  while (rank.err == 0 && !rank.over && fs_now_ns() < until) {
    const bool all = world.queued == 0 && rank.own == NULL;
    if (kind == FS_NODES_KINDS ? all : seen[kind] >= times) break;
    (void)fs_nodes_step(&rank, fs_now_ns() + FS_NS_PER_S / 1000);
  }
  return rank.err == 0 && !rank.over;
}

static bool tell(struct fs_msg *m, uint32_t answer) {
  const uint32_t before = answer < FS_NODES_KINDS ? seen[answer] : 0;
  arrive(0, m);
  return work_until(FS_NODES_KINDS, 0) && (answer == FS_NODES_KINDS || work_until(answer, before + 1));
}

static struct fs_msg *source_message(void) {
  char path[PATH_MAX];
  struct stat st;
  struct fs_msg *m = fs_msg_new(FS_NODES_SOURCE);
  if (stat(path_of(path, "source"), &st) < 0) abort();
  fs_msg_u32(m, 0);
  fs_msg_text(m, path);
  fs_msg_text(m, "");
  fs_msg_text(m, path);
  fs_msg_text(m, path);
  fs_msg_u64(m, st.st_ino);
  fs_msg_u64(m, (uint64_t)st.st_mtim.tv_sec);
  return m;
}

static void task(struct fs_msg *m, const char *path, const char *names, size_t n) {
  fs_msg_text(m, path);
  fs_msg_u32(m, 0);
  fs_msg_u32(m, 0);
  fs_msg_u32(m, (uint32_t)n);
  fs_msg_put(m, names, n);
}

/* The walk ends when all tasks are done, as the lead hears it: a thread may still be busy then. */
static bool walk_all(void) {
  struct fs_msg *m = fs_msg_new(FS_NODES_WALK);
  if (!tell(source_message(), FS_NODES_FOUND)) return false;
  fs_msg_u32(m, 0);
  task(m, "", NULL, 0);
  task(m, "a",
       "0\0"
       "2",
       4);
  if (!tell(m, FS_NODES_FOUND)) return false;
  for (const uint64_t until = fs_now_ns() + QUIET_NS; nedits == 0 || fs_now_ns() < until;) {
    if (tasks_done >= 2) break;
    if (fs_nodes_step(&rank, fs_now_ns() + FS_NS_PER_S / 1000) < 0) return false;
  }
  m = fs_msg_new(FS_NODES_WALKED);
  fs_msg_u32(m, 0);
  return tell(m, FS_NODES_KINDS);
}

static bool scan_archive(void) {
  char path[PATH_MAX];
  struct stat st;
  struct fs_msg *m = fs_msg_new(FS_NODES_SCAN);
  if (stat(path_of(path, "source.tar.gz"), &st) < 0) abort();
  fs_msg_u32(m, 1);
  fs_msg_text(m, path);
  fs_msg_text(m, "pre/fix");
  fs_msg_stat(m, &st);
  return tell(m, FS_NODES_SCANNED);
}

static void put_source(struct fs_msg *m, const char *name, uint32_t kind) {
  char path[PATH_MAX];
  struct stat st;
  if (stat(path_of(path, name), &st) < 0) abort();
  fs_msg_text(m, path);
  fs_msg_u32(m, kind);
  fs_msg_u64(m, 0);
  fs_msg_stat(m, &st);
  fs_msg_u32(m, kind == FS_SOURCE_STREAM);
  fs_msg_u32(m, kind == FS_SOURCE_STREAM ? ARCHIVE_FILTER_GZIP : 0);
  fs_msg_u64(m, MEMBERS);
}

static struct fs_msg *plan_message(void) {
  char path[PATH_MAX];
  const uint8_t kinds[FS_KINDS_MAX] = {FS_CODEC_LZ4, 2, FS_CODEC_RAW, 3};
  struct fs_msg *m = fs_msg_new(FS_NODES_PLAN);
  fs_msg_text(m, path_of(path, "local"));
  const uint32_t numbers[] = {FS_BLOCK_SIZE_MIN, FS_ALIGN, FS_CHOOSE_LZ4, 2, 1, 3, 0, 1, 2};
  for (size_t i = 0; i < FS_ARRAY_LEN(numbers); i++) fs_msg_u32(m, numbers[i]);
  fs_msg_u64(m, 7);
  fs_msg_u64(m, 100000);
  fs_msg_u64(m, 1 << 20);
  fs_msg_u64(m, 1 << 20);
  fs_msg_u64(m, 32 << 10);
  fs_msg_put(m, kinds, sizeof kinds);
  fs_msg_u32(m, 2);
  put_source(m, "source", FS_SOURCE_DIR);
  put_source(m, "source.tar.gz", FS_SOURCE_STREAM);
  return m;
}

static bool codecs(void) {
  static const uint32_t row[][4] = {
      {FS_FAMILY_RAW, 1, 0, 0}, {FS_FAMILY_LZ4, 1, 0, 0}, {FS_FAMILY_ZSTD, 1, 1, 0}, {FS_FAMILY_LZ4, 4, 9, 64}};
  static const uint8_t dict[64] = "abcdefg";
  bool on = true;
  for (uint32_t i = 0; i < FS_ARRAY_LEN(row) && on; i++) {
    struct fs_msg *m = fs_msg_new(FS_NODES_CODEC);
    fs_msg_u32(m, i);
    for (unsigned k = 0; k < 4; k++) fs_msg_u32(m, row[i][k]);
    fs_msg_put(m, dict, row[i][3]);
    on = tell(m, FS_NODES_KINDS);
  }
  return on;
}

static bool open_dirs(void) {
  char path[PATH_MAX];
  struct fs_msg *m = fs_msg_new(FS_NODES_OPEN);
  fs_msg_text(m, path_of(path, ".ds.partial-abcdef"));
  fs_msg_u32(m, 0);
  return tell(m, FS_NODES_OPENED);
}

static void chunk(struct fs_msg *m, uint64_t item, const char *path, uint64_t offset, uint64_t n) {
  char full[PATH_MAX], name[PATH_MAX];
  struct stat st;
  snprintf(name, sizeof name, "source/%s", path);
  if (stat(path_of(full, name), &st) < 0) abort();
  fs_msg_u64(m, item);
  fs_msg_text(m, path);
  fs_msg_u32(m, 0);
  fs_msg_u64(m, (uint64_t)st.st_size);
  fs_msg_u32(m, 1);
  fs_msg_u64(m, st.st_ino);
  fs_msg_u64(m, (uint64_t)st.st_mtim.tv_sec);
  fs_msg_u32(m, (uint32_t)st.st_mtim.tv_nsec);
  fs_msg_u32(m, st.st_mode);
  fs_msg_u32(m, item % 4);
  fs_msg_u32(m, 0);
  fs_msg_u32(m, 0);
  fs_msg_u64(m, offset);
  fs_msg_u64(m, n);
}

static void member(struct fs_msg *m, uint64_t item, unsigned which) {
  char name[8];
  fs_msg_u64(m, item);
  fs_msg_text(m, member_name(name, 'm', which));
  fs_msg_u32(m, 1);
  fs_msg_u64(m, member_size(which));
  fs_msg_u32(m, 0);
  fs_msg_u64(m, which);
  fs_msg_u64(m, MEMBER_TIME);
  fs_msg_u32(m, 0);
  fs_msg_u32(m, S_IFREG | 0600);
  for (unsigned i = 0; i < 3; i++) fs_msg_u32(m, 0);
  fs_msg_u64(m, 0);
  fs_msg_u64(m, member_size(which));
}

struct part {
  uint64_t seq, size;
};

/* Has the rank put all chunks into a partition. 1: its own; 0: the lead's; 2: replicated. */
static bool place(struct part *p, uint32_t part) {
  struct fs_msg *m = fs_msg_new(FS_NODES_PLACED);
  fs_msg_u64(m, number);
  fs_msg_u32(m, chunks);
  for (uint32_t i = 0; i < chunks && i < FS_BATCH_CHUNKS; i++) {
    p[part].size = fs_round_up(p[part].size, 8);
    fs_msg_u32(m, part);
    fs_msg_u64(m, p[part].seq++);
    fs_msg_u64(m, p[part].size);
    p[part].size += stored[i];
  }
  return tell(m, FS_NODES_KINDS);
}

static bool batches(struct part *p) {
  struct fs_msg *m = fs_msg_new(FS_NODES_WORK);
  fs_msg_u64(m, 0);
  fs_msg_u32(m, 4);
  chunk(m, 0, "a/0", 0, 5);
  chunk(m, 1, "a/1", 0, 1005);
  chunk(m, 2, "b/1", 0, 1005);
  chunk(m, 3, "b/2", 0, 2005);
  if (!tell(m, FS_NODES_ENCODED) || !place(p, 1)) return false;
  for (uint32_t part = 0; part <= 2; part += 2) {
    m = fs_msg_new(FS_NODES_WORK);
    fs_msg_u64(m, part + 1);
    fs_msg_u32(m, 1);
    chunk(m, 4, "large", part / 2 * (32ul << 10), part == 0 ? 32 << 10 : 65000 - (32 << 10));
    if (!tell(m, FS_NODES_ENCODED) || !place(p, part)) return false;
  }
  for (unsigned turn = 0; turn < 2; turn++) { /* of the archive: member 2 is passed over */
    m = fs_msg_new(FS_NODES_WORK);
    fs_msg_u64(m, 4 + turn);
    fs_msg_u32(m, 1);
    member(m, 5 + turn, 1 + 2 * turn);
    if (!tell(m, FS_NODES_ENCODED) || !place(p, 1)) return false;
  }
  return true;
}

/* Chunks that the lead's worker has encoded. The second message comes first. */
static bool other_bytes(struct part *p) {
  const uint64_t first = fs_round_up(p[1].size, 8), second = first + 104;
  bool on = true;
  for (unsigned i = 0; i < 2 && on; i++) {
    struct fs_msg *m = fs_msg_new(FS_NODES_BYTES);
    fs_msg_u64(m, 7 + i);
    fs_msg_u32(m, 1);
    fs_msg_u32(m, 1);
    fs_msg_u64(m, p[1].seq + 1 - i);
    fs_msg_u64(m, i == 0 ? second : first);
    fs_msg_u64(m, 100);
    fs_msg_put(m, top, 100);
    on = tell(m, i == 0 ? FS_NODES_KINDS : FS_NODES_KEPT);
  }
  p[1].size = second + 100;
  return on;
}

static bool ask(uint32_t kind, const struct part *p) {
  struct fs_msg *m = fs_msg_new(kind);
  fs_msg_u32(m, 3);
  for (unsigned i = 0; i < 3; i++) fs_msg_u64(m, p[i].size);
  return tell(m, FS_NODES_STATES);
}

static bool tell_path(uint32_t kind, const char *name, uint32_t answer) {
  char path[PATH_MAX];
  struct fs_msg *m = fs_msg_new(kind);
  fs_msg_text(m, path_of(path, name));
  return tell(m, answer);
}

/* Returns true if the rank came to the end. */
static bool whole_pack(void) {
  struct part p[3] = {{0, FS_PART_HEADER_SIZE}, {0, FS_PART_HEADER_SIZE}, {0, FS_PART_HEADER_SIZE}};
  if (!walk_all() || !scan_archive() || !tell(plan_message(), FS_NODES_READY) || !codecs() || !open_dirs())
    return false;
  if (!batches(p) || !other_bytes(p) || !ask(FS_NODES_SYNC, p) || !ask(FS_NODES_FINISH, p)) return false;
  struct fs_msg *m = fs_msg_new(FS_NODES_SEAL);
  fs_msg_put(m, "0123456789abcdef", 16);
  if (!tell(m, FS_NODES_SEALED)) return false;
  (void)tell_path(FS_NODES_ADOPT, "no-dataset", FS_NODES_FAILED);
  return true;
}

static void end_walk(void) {
  struct fs_node_walk *p = rank.node_walk;
  if (p == NULL) return;
  fs_walk_stop(&p->walk, -EINTR);
  pthread_mutex_lock(&p->lock);
  fs_msg_free(p->out); /* a thread may wait for room */
  p->out = NULL;
  pthread_cond_broadcast(&p->taken);
  pthread_mutex_unlock(&p->lock);
  pthread_join(p->thread, NULL);
  node_walk_free(p);
}

static void make_all(void) {
  make_source();
  make_archive("source.tar.gz", 'm');
  confine();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[PATH_MAX];
  if (top[0] == '\0') make_all();
  read_edits(data, size);
  if (mkdir(path_of(path, ".ds.partial-abcdef"), 0700) < 0) abort();
  memset(&rank, 0, sizeof rank);
  memset(seen, 0, sizeof seen);
  tasks_done = chunks = 0;
  rank.o = (struct fs_pack_options){
      .jobs = 1, .nsources = 2, .block_size = FS_BLOCK_SIZE_MIN, .align = FS_ALIGN, .local_dir = "local"};
  begin_nodes(&rank, 1, 2, on_message);
  const bool sealed = whole_pack();
  if (nedits == 0 && (!sealed || seen[FS_NODES_FAILED] != 1)) abort();
  end_walk();
  fs_scan_stop(&rank);
  end_nodes(&rank);
  if (nedits == 0 && names_in("local/fanstore-node1") != 0) abort();
  if (nedits == 0 && names_in(".") != 2) abort(); /* local, .ds.partial-abcdef */
  remove_all();
  return 0;
}
