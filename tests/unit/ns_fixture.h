/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that keep names, in one process: the name service of each, a network that delivers in order between two ranks
 * after random delays, time of the test's own, and ranks that die between two messages. For
 * tests/unit/test_daemon_ns*.c.
 */
#ifndef FS_TEST_NS_FIXTURE_H
#define FS_TEST_NS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "daemon/metadata/ns_priv.h"
#include "daemon/metadata/shared_names.h"
#include "tools_fixture.h"

#define RANKS 5u
#define DEADLINE 100000000ull /* 100 ms */
#define TICK 50000ull
#define DELAY_MAX 400000u

struct packet {
  struct packet *next;
  uint64_t due;
  struct fs_ns_message head;
  size_t n;
  alignas(8) char body[];
};

static struct {
  uint64_t now;
  uint32_t ranks;
  struct fs_ns *ns[RANKS];
  struct fs_shared_names *shared[RANKS];
  struct fs_record_view view[RANKS];
  bool dead[RANKS], cut[RANKS][RANKS];
  struct packet *first[RANKS][RANKS], *last[RANKS][RANKS];
  bool mark[RANKS][FS_MARK_BITS], taken[RANKS][FS_TAKEN_BITS];
  bool dropped[RANKS][65536]; /* files of this rank's, by their count */
  unsigned tree[RANKS], marks, changes;
  uint64_t messages, lost;
  unsigned questions[FS_NAMES_OPS]; /* sent, of each operation */
  unsigned loss;                    /* one message in so many is lost; 0: none */
  bool hostile;                     /* a message said what none of the ranks would */
  uint64_t busy;                    /* until then homes answer EAGAIN */
  bool hangs;                       /* the unlink of a backing file never ends */
  unsigned asked;                   /* homes, so many times */
} world;

/* Of many rounds valgrind gets every seventh, odd and even ones, of all moments: each world is megabytes that it fills.
   AddressSanitizer gets all. */
static inline unsigned next_round(unsigned round) {
  return round + (fix_slowness() > 1 ? 7 : 1);
}

static uint64_t random_state;
/* Each round is repeatable by its number. */
static void random_seed(unsigned round) {
  random_state = 88172645463325252ull + round * 0x9e3779b97f4a7c15ull;
}
static unsigned random_below(unsigned n) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (unsigned)(random_state >> 33) % n;
}

static uint32_t rank_of(const struct fs_ns *ns) {
  return (uint32_t)(uintptr_t)fs_ns_user(ns);
}

static void sim_send(struct fs_ns *ns, uint32_t to, const struct fs_ns_message *head, const void *body, size_t n) {
  uint32_t from = rank_of(ns);
  if (world.dead[from] || world.dead[to] || world.cut[from][to]) return;
  if (world.loss > 0 && random_below(world.loss) == 0) {
    world.lost++;
    return;
  }
  struct packet *p = calloc(1, sizeof(*p) + n), *last = world.last[from][to];
  p->due = world.now + random_below(DELAY_MAX);
  if (last && last->due > p->due) p->due = last->due;
  p->head = *head;
  p->n = n;
  if (n > 0) memcpy(p->body, body, n);
  if (last)
    last->next = p;
  else
    world.first[from][to] = p;
  world.last[from][to] = p;
  world.messages++;
  if (!head->answer) world.questions[((const struct fs_names_call *)body)->op]++;
}
static void sim_mark(struct fs_ns *ns, uint32_t bit) {
  world.mark[rank_of(ns)][bit] = true;
  world.marks++;
}
static void sim_taken(struct fs_ns *ns, uint32_t bit, uint32_t name) {
  assert_true(bit < FS_MARK_BITS && world.mark[rank_of(ns)][bit]);
  world.taken[rank_of(ns)][name] = true;
}
static void sim_tree(struct fs_ns *ns) {
  world.tree[rank_of(ns)]++;
}
static void sim_dropped(struct fs_ns *ns, uint64_t id, bool now) {
  (void)now;
  if (!world.hostile) assert_int_equal(fs_ns_home(ns, id), rank_of(ns));
  world.dropped[rank_of(ns)][id & 0xffff] = true;
}
static bool sim_dropping(struct fs_ns *ns, struct fs_asked a, uint64_t id) {
  (void)ns, (void)a, (void)id;
  return world.hangs;
}
/* A home that answers at once, with what it was asked. */
static void sim_home(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  world.asked++;
  if (world.now < world.busy)
    fs_ns_answer(ns, a, -EAGAIN, NULL, 0);
  else
    fs_ns_answer(ns, a, c->op == FS_NAMES_REPLICA || fs_ns_home(ns, fs_call_id(c)) == rank_of(ns) ? 0 : -EINVAL, c,
                 sizeof(*c));
}
static void sim_members(struct fs_ns *ns) {
  (void)ns;
  world.changes++;
}
static const struct fs_ns_hooks sim_hooks = {.send = sim_send,
                                             .mark = sim_mark,
                                             .taken = sim_taken,
                                             .tree = sim_tree,
                                             .lists = sim_tree,
                                             .dropped = sim_dropped,
                                             .dropping = sim_dropping,
                                             .home = sim_home,
                                             .members = sim_members};

/* A daemon never ends its name service but by ending; that of worlds that are over stays, too. */
static struct fs_ns *volatile graveyard[200000]; /* volatile: else the compiler sees that nobody looks there */
static unsigned graves;

static void sim_share(uint32_t rank) {
  uint64_t size;
  assert_int_equal(fs_shared_names_new(&world.shared[rank], 1u << 20), 0);
  int fd = fs_shared_names_fd(world.shared[rank], &size);
  void *base = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
  assert_ptr_not_equal(base, MAP_FAILED);
  assert_int_equal(fs_record_view_init(&world.view[rank], base, size), 0);
  fs_ns_share(world.ns[rank], world.shared[rank]);
}

static void sim_start(uint32_t ranks) {
  for (uint32_t i = 0; i < world.ranks; i++) {
    for (uint32_t k = 0; k < world.ranks; k++) {
      for (struct packet *p = world.first[i][k], *next; p; p = next) {
        next = p->next;
        free(p);
      }
    }
    assert_true(graves < FS_ARRAY_LEN(graveyard));
    graveyard[graves++] = world.ns[i];
    uint64_t size;
    fs_names_drop_all(world.ns[i]->names); /* what is in the shared table */
    if (world.ns[i]->borrowed) fs_names_free(world.ns[i]->borrowed);
    world.ns[i]->borrowed = NULL;
    (void)fs_shared_names_fd(world.shared[i], &size);
    munmap((void *)world.view[i].base, size);
    fs_shared_names_free(world.shared[i]);
  }
  memset(&world, 0, sizeof(world));
  world.ranks = ranks;
  world.now = 1;
  for (uint32_t i = 0; i < ranks; i++) {
    assert_int_equal(fs_ns_new(&world.ns[i], i, ranks, DEADLINE, &sim_hooks, (void *)(uintptr_t)i), 0);
    for (uint32_t k = 0; k < ranks; k++) world.ns[i]->suspect[k].heard = true;
    sim_share(i);
  }
}

static inline void sim_kill(uint32_t rank) {
  world.dead[rank] = true;
  for (uint32_t i = 0; i < world.ranks; i++) {
    for (int way = 0; way < 2; way++) {
      uint32_t from = way ? rank : i, to = way ? i : rank;
      for (struct packet *p = world.first[from][to], *next; p; p = next) {
        next = p->next;
        free(p);
      }
      world.first[from][to] = world.last[from][to] = NULL;
    }
  }
}

static void sim_deliver(uint32_t from, uint32_t to) {
  struct packet *p;
  while ((p = world.first[from][to]) != NULL && p->due <= world.now && !world.dead[to]) {
    world.first[from][to] = p->next;
    if (!p->next) world.last[from][to] = NULL;
    fs_ns_receive(world.ns[to], world.now, from, &p->head, p->body, p->n);
    free(p);
  }
}

static void sim_step(void) {
  world.now += TICK;
  uint32_t turn = random_below(world.ranks);
  for (uint32_t i = 0; i < world.ranks; i++) {
    uint32_t to = (i + turn) % world.ranks;
    if (world.dead[to]) continue;
    for (uint32_t from = 0; from < world.ranks; from++) sim_deliver(from, to);
    if (world.now / TICK % 20 != 0) continue;
    fs_ns_timers(world.ns[to], world.now);
    fs_shared_names_until(world.shared[to], fs_ns_certain_until(world.ns[to]));
  }
}

static bool sim_knows_the_dead(uint32_t rank) {
  for (uint32_t i = 0; i < world.ranks; i++) {
    if (world.dead[i] && fs_member(fs_ns_members(world.ns[rank]), i)) return false;
  }
  return true;
}

/* Until nothing is under way between the living, and all know of the dead. */
static void sim_settle(void) {
  for (unsigned steps = 0, quiet = 0; quiet < 100; steps++) {
    bool busy = false;
    sim_step();
    assert_true(steps < 2000000);
    for (uint32_t i = 0; i < world.ranks; i++)
      busy = busy || (!world.dead[i] &&
                      (fs_ns_busy(world.ns[i]) || !fs_chain_empty(&world.ns[i]->holds) || !sim_knows_the_dead(i)));
    quiet = busy ? 0 : quiet + 1;
  }
}

/* ---- calls ---- */

struct call {
  bool done;
  fs_err err;
  size_t n;
  alignas(8) char body[FS_NAMES_BODY];
};

static void call_done(void *ctx, fs_err err, const void *body, size_t n) {
  struct call *c = ctx;
  assert_false(c->done);
  c->done = true;
  c->err = err;
  c->n = n;
  if (n > 0) memcpy(c->body, body, n);
}

/* CREATE in this directory, by this rank. */
static inline struct fs_names_call call_create(uint32_t rank, uint64_t dir, uint32_t mode) {
  return (struct fs_names_call){.op = FS_NAMES_CREATE,
                                .create = {.dir = dir, .id = fs_ns_id(world.ns[rank]), .mode = mode}};
}

static void call_start(struct call *c, uint32_t rank, struct fs_names_call head, const char *name, const char *name2) {
  alignas(8) char buf[sizeof(head) + 600];
  memcpy(buf, &head, sizeof(head));
  size_t n = fs_call_put((void *)buf, name, strlen(name), name2, strlen(name2));
  c->done = false;
  c->n = 0;
  assert_true(fs_call_ok(buf, n));
  fs_ns_call(world.ns[rank], world.now, (const void *)buf, call_done, c);
}

static inline void call_wait(struct call *c) {
  for (unsigned steps = 0; !c->done; steps++) {
    assert_true(steps < 1000000);
    sim_step();
  }
}

static inline const struct fs_record *call_record(struct call *c) {
  size_t at = 0;
  return fs_record_next(c->body, c->n, &at);
}

/* All members know that a directory has outputs, whoever told them, and will no more. */
static void check_mark(const struct fs_ns *ns, uint64_t dir) {
  for (uint32_t i = 0; i < world.ranks && !(dir & FS_OUTPUT_ID) && fs_names_count(ns->names, dir) > 0; i++) {
    if (!world.dead[i] && fs_member(&ns->members, i)) assert_true(world.mark[i][fs_mark_bit(dir)]);
  }
}

/* Of a private directory a backup may lack what was published. */
static bool is_copy(const struct fs_ns *ns, const struct fs_record *a, const struct fs_record *b) {
  struct fs_record copy = *b;
  if (fs_record_size(a) != fs_record_size(b)) return false;
  if (fs_private(ns, a->dir) && S_ISREG(a->mode) && !(b->flags & FS_RECORD_PUBLISHED)) {
    copy = *a;
    copy.id = b->id, copy.seq = b->seq;
  }
  return memcmp(a, &copy, sizeof(*a)) == 0 && memcmp(a + 1, b + 1, a->name_len + a->target_len) == 0;
}

/* What backups have is what primaries have; who keeps nothing of a directory has nothing of it. */
static void check_dir(void *ctx, uint64_t dir) {
  const struct fs_ns *ns = ctx;
  struct fs_keepers k = fs_members_keepers(&ns->members, dir);
  check_mark(ns, dir);
  if (k.primary != ns->rank || k.backup == FS_NO_RANK || world.dead[k.backup]) return;
  const struct fs_names *backup = world.ns[k.backup]->names;
  const struct fs_record *a;
  uint64_t seq = 0, count = 0;
  assert_true(fs_names_closed(ns->names, dir, UINT64_MAX - 1) == fs_names_closed(backup, dir, UINT64_MAX - 1));
  while ((a = fs_names_after(ns->names, dir, seq)) != NULL) {
    const struct fs_record *b = fs_names_after(backup, dir, seq);
    assert_non_null(b);
    assert_true(is_copy(ns, a, b));
    seq = a->seq;
    count++;
  }
  assert_int_equal(fs_names_count(backup, dir), count);
  assert_true(fs_names_changed(ns->names, dir) == fs_names_changed(backup, dir));
}
static void sim_check_backups(void) {
  for (uint32_t i = 0; i < world.ranks; i++) {
    if (!world.dead[i]) fs_names_each(world.ns[i]->names, check_dir, world.ns[i]);
  }
}

#endif
