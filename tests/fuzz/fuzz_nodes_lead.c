/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lead of a pack over three nodes, from its command line to the dataset. The two others answer as
 * nodes of a real pack do, as fuzz_nodes.h says. Whatever they send, the pack ends, and leaves either
 * a dataset or nothing.
 */
#include "../../fs-prepare/nodes/lead.h"
#include "fuzz_nodes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OTHERS 2u
#define PARTS 3u

static struct fs_nodes rank;

static bool items_found;

/* Items below a directory that the lead's own walk leaves out. */
static void put_items(struct fs_msg *m) {
  static const struct {
    const char *path, *target;
    uint32_t mode;
  } item[] = {
      {"excluded", "", S_IFDIR | 0700}, {"excluded/x", "", S_IFREG | 0600}, {"excluded/y", "../large", S_IFLNK | 0777}};
  char path[PATH_MAX];
  struct stat st;
  for (size_t i = 0; i < FS_ARRAY_LEN(item); i++) {
    if (stat(path_of(path, "source/excluded/x"), &st) < 0) abort();
    if (!S_ISREG(item[i].mode)) st = (struct stat){0};
    fs_msg_u32(m, FS_FOUND_ITEM);
    fs_msg_text(m, item[i].path);
    fs_msg_u32(m, item[i].mode);
    fs_msg_u64(m, (uint64_t)st.st_size);
    fs_msg_u64(m, st.st_ino);
    fs_msg_u64(m, (uint64_t)st.st_mtim.tv_sec);
    fs_msg_u32(m, (uint32_t)st.st_mtim.tv_nsec);
    fs_msg_u32(m, 0);
    fs_msg_u32(m, 0);
    fs_msg_text(m, item[i].target);
  }
}

static void found(uint32_t to, struct fs_in *tasks) {
  struct fs_msg *m = fs_msg_new(FS_NODES_FOUND);
  fs_msg_u32(m, fs_in_u32(tasks));
  fs_msg_u32(m, 1);
  if (!items_found) put_items(m);
  items_found = true;
  while (tasks->at < tasks->n) { /* gives each task back: the lead walks it */
    const char *path = fs_in_text(tasks);
    const uint32_t replicate = fs_in_u32(tasks);
    fs_in_u32(tasks);
    const uint32_t n = fs_in_u32(tasks);
    fs_msg_u32(m, FS_FOUND_TASK);
    fs_msg_text(m, path);
    fs_msg_u32(m, replicate);
    fs_msg_u32(m, 1);
    fs_msg_u32(m, n);
    fs_msg_put(m, fs_in_get(tasks, n), n);
    fs_msg_u32(m, FS_FOUND_DONE);
    for (unsigned i = 0; i < 4; i++) fs_msg_u64(m, i == 0);
    fs_msg_text(m, "");
  }
  arrive(to, m);
}

static void begin_walk(uint32_t to, struct fs_in *source) {
  struct fs_msg *m = fs_msg_new(FS_NODES_FOUND);
  fs_msg_u32(m, fs_in_u32(source));
  fs_msg_u32(m, 1);
  arrive(to, m);
}

/* What is in an archive: true, since the lead may have to read it. */
static void scanned(uint32_t to, struct fs_in *scan) {
  struct fs_msg *m = fs_msg_new(FS_NODES_SCANNED);
  const uint32_t number = fs_in_u32(scan);
  char name[8];
  fs_msg_u32(m, number);
  for (unsigned i = 1; i <= MEMBERS; i++) {
    fs_msg_u32(m, FS_FOUND_ITEM);
    fs_msg_text(m, member_name(name, (char)('p' + number), i));
    fs_msg_u32(m, S_IFREG | 0600);
    fs_msg_u64(m, member_size(i));
    fs_msg_u64(m, i);
    fs_msg_u64(m, MEMBER_TIME);
    for (unsigned k = 0; k < 3; k++) fs_msg_u32(m, 0);
    fs_msg_text(m, "");
  }
  fs_msg_u32(m, FS_FOUND_BEGIN);
  fs_msg_u64(m, 2);
  fs_msg_u32(m, 5);
  fs_msg_put(m, "bytes", 5);
  fs_msg_u32(m, FS_FOUND_DONE);
  fs_msg_u32(m, FS_SOURCE_STREAM);
  for (unsigned i = 0; i < 3; i++) fs_msg_u64(m, 0);
  arrive(to, m);
}

static void ready(uint32_t to) {
  struct fs_msg *m = fs_msg_new(FS_NODES_READY);
  fs_msg_u32(m, 1);
  fs_msg_text(m, to == 1 ? "one" : "two");
  arrive(to, m);
}

/* The lengths of the chunks of each batch that a node has, for its BYTES. */
static struct {
  uint32_t worker, n;
  uint64_t len[FS_BATCH_CHUNKS];
} batch[256];

static void encoded(uint32_t to, struct fs_in *work) {
  const uint64_t number = fs_in_u64(work);
  const uint32_t n = fs_in_u32(work);
  struct fs_msg *m = fs_msg_new(FS_NODES_ENCODED);
  if (number >= FS_ARRAY_LEN(batch) || n > FS_BATCH_CHUNKS) abort();
  batch[number].worker = to;
  batch[number].n = n;
  fs_msg_u64(m, number);
  fs_msg_u32(m, 0);
  fs_msg_u32(m, n);
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t item = fs_in_u64(work);
    fs_in_text(work);
    fs_in_get(work, 4 + 8 + 4 + 8 + 8 + 5 * 4ul + 8);
    const uint64_t len = batch[number].len[i] = fs_in_u64(work);
    const uint64_t hash = (item + 1) * 0x9e3779b97f4a7c15u;
    fs_msg_u32(m, 0);
    fs_msg_u32(m, FS_CODEC_RAW);
    fs_msg_u64(m, len);
    for (unsigned k = 0; k < 3; k++) fs_msg_u64(m, hash + k);
    fs_msg_u32(m, (uint32_t)((len + FS_BLOCK_SIZE_MIN - 1) / FS_BLOCK_SIZE_MIN));
    for (uint64_t at = 0; at < len; at += FS_BLOCK_SIZE_MIN) {
      fs_msg_u32(m, (uint32_t)FS_MIN(len - at, FS_BLOCK_SIZE_MIN));
      fs_msg_u64(m, hash + at);
    }
  }
  if (work->bad) abort();
  arrive(to, m);
}

static void kept(uint32_t from, uint64_t number) {
  struct fs_msg *m = fs_msg_new(FS_NODES_KEPT);
  fs_msg_u64(m, number);
  arrive(from, m);
}

/* The bytes of a placed batch go to their owners: to the lead, or to a node that has kept them at once. */
static void placed(uint32_t to, struct fs_in *in_) {
  static const uint8_t zeros[1 << 20];
  const uint64_t number = fs_in_u64(in_);
  const uint32_t n = fs_in_u32(in_);
  bool has[OTHERS + 1] = {false};
  uint32_t own = 0;
  struct fs_msg *m = fs_msg_new(FS_NODES_BYTES);
  fs_msg_u64(m, number);
  fs_msg_u32(m, 0);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t part = fs_in_u32(in_);
    const uint64_t seq = fs_in_u64(in_), at = fs_in_u64(in_), len = batch[number % FS_ARRAY_LEN(batch)].len[i];
    if (part == FS_NOWHERE) continue;
    has[part % (OTHERS + 1)] = true;
    if (part % (OTHERS + 1) != 0) continue;
    own++;
    fs_msg_u32(m, part);
    fs_msg_u64(m, seq);
    fs_msg_u64(m, at);
    fs_msg_u64(m, len);
    fs_msg_put(m, zeros, len);
  }
  fs_msg_patch_u32(m, 12, own);
  if (own != 0)
    arrive(to, m);
  else
    fs_msg_free(m);
  for (uint32_t r = 1; r <= OTHERS; r++)
    if (has[r]) kept(r, number);
}

static void states(uint32_t to, struct fs_in *sizes) {
  struct fs_msg *m = fs_msg_new(FS_NODES_STATES);
  const uint32_t n = fs_in_u32(sizes);
  for (uint32_t k = 0; k < n; k++) {
    const uint64_t size = fs_in_u64(sizes);
    if (k % (OTHERS + 1) != to) continue;
    fs_msg_u32(m, k);
    fs_msg_u64(m, size);
    fs_msg_u64(m, 7 + k);
  }
  fs_msg_u32(m, UINT32_MAX);
  arrive(to, m);
}

static void answer(uint32_t to, uint32_t kind) {
  struct fs_msg *m = fs_msg_new(kind);
  if (kind == FS_NODES_OPENED) fs_msg_text(m, "");
  if (kind == FS_NODES_ADOPTED) fs_msg_u64(m, 1000);
  arrive(to, m);
}

static void on_message(uint32_t to, struct fs_in *m) {
  switch (fs_in_u32(m)) {
  case FS_NODES_SOURCE:
    begin_walk(to, m);
    break;
  case FS_NODES_WALK:
    found(to, m);
    break;
  case FS_NODES_SCAN:
    scanned(to, m);
    break;
  case FS_NODES_PLAN:
    ready(to);
    break;
  case FS_NODES_OPEN:
    answer(to, FS_NODES_OPENED);
    break;
  case FS_NODES_WORK:
    encoded(to, m);
    break;
  case FS_NODES_PLACED:
    placed(to, m);
    break;
  case FS_NODES_BYTES:
    kept(to, fs_in_u64(m));
    break;
  case FS_NODES_SYNC:
  case FS_NODES_FINISH:
    states(to, m);
    break;
  case FS_NODES_SEAL:
    answer(to, FS_NODES_SEALED);
    break;
  case FS_NODES_ADOPT:
    answer(to, FS_NODES_ADOPTED);
    break;
  default:
    break;
  }
}

/* The other nodes have nothing to say, and the lead waits: one of them gives up. */
static void give_up(void) {
  struct fs_msg *m = fs_msg_new(FS_NODES_FAILED);
  if (nedits == 0) abort();
  fs_msg_text(m, "quiet");
  enqueue(1, m->data, m->n);
  fs_msg_free(m);
  world.moved_ns = fs_now_ns();
}

static void make_more(void) {
  char path[PATH_MAX];
  make_source();
  if (mkdir(path_of(path, "source/excluded"), 0700) < 0 || mkdir(path_of(path, "source/many"), 0700) < 0) abort();
  for (unsigned i = 0; i < 3 * FS_BATCH_CHUNKS; i++) { /* some batches for each node */
    snprintf(path, sizeof path, "source/many/%u", i);
    write_file(path, 1 + i, 'm');
  }
  write_file("source/excluded/x", 300, 'x');
  make_archive("source1.tar.gz", 'q'); /* by their numbers: SOURCE is 0 */
  make_archive("source2.tar.gz", 'r');
  confine();
}

static int pack(void) {
  char source[PATH_MAX], archive[OTHERS][PATH_MAX], dataset[PATH_MAX], local[PATH_MAX];
  char words[][24] = {"pack", "--codec",  "lz4",   "--block-size", "16K",      "--partitions",
                      "3",    "--jobs",   "1",     "--exclude",    "excluded", "--node-timeout",
                      "60",   "--shards", "merge", "--mount",      "/m",       "--local-dir"};
  char *argv[FS_ARRAY_LEN(words) + 4 + OTHERS];
  int argc = 0;
  for (size_t i = 0; i < FS_ARRAY_LEN(words); i++) argv[argc++] = words[i];
  path_of(source, "source");
  path_of(dataset, "ds");
  path_of(local, "local");
  argv[argc++] = local;
  argv[argc++] = source;
  for (unsigned i = 0; i < OTHERS; i++) {
    char name[] = {'s', 'o', 'u', 'r', 'c', 'e', (char)('1' + i), '.', 't', 'a', 'r', '.', 'g', 'z', '\0'};
    path_of(archive[i], name);
    argv[argc++] = archive[i];
  }
  argv[argc++] = dataset;
  argv[argc] = NULL;
  if (fs_pack_options_parse(&rank.o, argc, argv) < 0) abort();
  begin_nodes(&rank, 0, OTHERS + 1, on_message);
  return fs_lead_run(&rank, argc, argv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (top[0] == '\0') make_more();
  read_edits(data, size);
  memset(&rank, 0, sizeof rank);
  memset(batch, 0, sizeof batch);
  items_found = false;
  on_quiet = give_up;
  const int status = pack();
  end_nodes(&rank);
  free(rank.lead->peer);
  free(rank.lead->flight);
  free(rank.lead->seq);
  free(rank.lead->new_of);
  free(rank.lead->device);
  free(rank.lead->reader);
  free(rank.lead);
  fs_pack_options_free(&rank.o);
  if (status != FS_EXIT_OK && (status != FS_EXIT_FAILED || nedits == 0)) abort();
  if (names_in(".") > (status == FS_EXIT_OK ? 2u : 1u)) abort(); /* local, ds */
  remove_all();
  return 0;
}
