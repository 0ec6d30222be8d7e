/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three ranks that keep names of output files (tests/unit/ns_fixture.h), and a story of calls at each of them, of
 * messages that are late, lost, sent twice, changed or made up, of links that are cut and of ranks that die. Whatever
 * happens, each call of a rank that lives ends, once; and while messages are only late or lost, and at most one rank
 * dies, backups have in the end what owners have.
 */
#include "../unit/ns_fixture.h"
#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIM_RANKS 3u
#define CALLS 32u
#define MADE 32u
#define ENDS 40000u /* steps after which no call may be under way: 2 s of the simulation, of deadlines of 100 ms */

static struct call calls[CALLS];
static struct {
  bool used;
  uint32_t rank;
} at[CALLS];
static uint64_t made[MADE]; /* ids of files and directories, the last ones */
static unsigned mades;
static bool cut;
static unsigned deaths;

static const char *a_name(void) {
  static const char *const names[] = {"f", "g", "d", "e"};
  return names[byte() % FS_ARRAY_LEN(names)];
}
static uint64_t an_id(void) {
  uint8_t b = byte();
  if (mades > 0 && b < 240) return made[b % FS_MIN(mades, MADE)];
  return FS_OUTPUT_ID_MAKE(b % SIM_RANKS, b >> 2 & 3);
}
static uint64_t a_dir(void) {
  uint8_t b = byte();
  return b & 3 && mades > 0 ? made[b / 4 % FS_MIN(mades, MADE)] : FS_DATASET_DIR(0, b >> 2 & 3);
}

static uint32_t a_mode(uint8_t type) {
  return (type & 1 ? S_IFDIR : type & 2 ? S_IFLNK : S_IFREG) | 0644;
}

static struct fs_names_call some_call(uint32_t rank, uint8_t op, const char **name, const char **name2) {
  struct fs_names_call h = {.op = op};
  uint64_t dir = a_dir();
  uint8_t type = byte();
  *name = *name2 = "";
  switch (op) {
  case FS_NAMES_CREATE:
    h.create = (struct fs_call_create){.dir = dir, .id = fs_ns_id(world.ns[rank]), .mode = a_mode(type)};
    *name = a_name();
    if (S_ISLNK(h.create.mode)) *name2 = "target";
    made[mades++ % MADE] = h.create.id;
    h.flags = !(type & 16) || (dir & FS_OUTPUT_ID) ? 0 : FS_CREATE_TAKES | (type & 32 ? FS_CREATE_COPY : 0);
    break;
  case FS_NAMES_RENAME:
    h.rename = (struct fs_call_rename){.dir = dir, .to = a_dir(), .call = fs_ns_id(world.ns[rank])};
    *name = a_name();
    *name2 = a_name();
    h.flags = type & 8 ? FS_RENAME_NOREPLACE : 0;
    if ((type & 16) && !(h.rename.to & FS_OUTPUT_ID)) h.flags |= FS_RENAME_TAKES;
    break;
  case FS_NAMES_REMOVE:
    h.remove = (struct fs_call_remove){.dir = dir, .call = fs_ns_id(world.ns[rank])};
    *name = a_name();
    h.flags = type & 1 ? FS_REMOVE_DIRECTORY : 0;
    if ((type & 16) && !(dir & FS_OUTPUT_ID)) h.flags |= FS_REMOVE_TAKES;
    break;
  case FS_NAMES_PUBLISH:
    h.publish = (struct fs_call_publish){.dir = dir, .id = an_id(), .size = type, .mode = S_IFREG | 0644};
    break;
  case FS_NAMES_SETATTR:
    h.setattr = (struct fs_call_setattr){.dir = dir, .id = an_id(), .mode = a_mode(type)};
    h.flags = 1 + (type >> 4) % 3;
    break;
  case FS_NAMES_LIST:
    h.list = (struct fs_call_list){.dir = dir, .after = type >> 4, .most = FS_LISTED_MOST << (type & 3)};
    break;
  case FS_NAMES_LOOKUP:
    h.lookup = (struct fs_call_lookup){.dir = dir, .id = an_id()};
    if (type & 4) *name = a_name();
    break;
  default:
    h.times.dir = dir;
  }
  return h;
}

static void a_call(void) {
  static const uint8_t ops[] = {FS_NAMES_CREATE, FS_NAMES_CREATE,  FS_NAMES_RENAME,  FS_NAMES_RENAME,
                                FS_NAMES_RENAME, FS_NAMES_PUBLISH, FS_NAMES_REMOVE,  FS_NAMES_REMOVE,
                                FS_NAMES_LOOKUP, FS_NAMES_LIST,    FS_NAMES_SETATTR, FS_NAMES_TIMES};
  uint8_t op = ops[byte() % FS_ARRAY_LEN(ops)];
  uint32_t rank = byte() % SIM_RANKS, i = 0;
  const char *name, *name2;
  while (i < CALLS && at[i].used && !calls[i].done) i++;
  if (i == CALLS || world.dead[rank]) return;
  at[i].used = true;
  at[i].rank = rank;
  struct fs_names_call h = some_call(rank, op, &name, &name2);
  call_start(&calls[i], rank, h, name, name2);
}

/* The first message that is on its way between two ranks. */
static struct packet *a_packet(uint32_t *from, uint32_t *to) {
  uint8_t b = byte();
  for (uint32_t k = 0; k < SIM_RANKS * SIM_RANKS; k++) {
    uint32_t pair = (b + k) % (SIM_RANKS * SIM_RANKS);
    *from = pair / SIM_RANKS;
    *to = pair % SIM_RANKS;
    if (world.first[*from][*to]) return world.first[*from][*to];
  }
  return NULL;
}

static void a_loss(void) {
  uint32_t from, to;
  struct packet *p = a_packet(&from, &to);
  if (!p) return;
  world.first[from][to] = p->next;
  if (!p->next) world.last[from][to] = NULL;
  free(p);
}

static void a_change(void) {
  uint32_t from, to;
  uint8_t how = byte();
  struct packet *p = a_packet(&from, &to);
  if (!p) return;
  world.hostile = true;
  if (how & 1) fs_ns_receive(world.ns[to], world.now, from, &p->head, p->body, p->n); /* and once more, later */
  if (how & 2) p->head.err = -(int32_t)(byte());
  if (how & 4) p->head.set += byte() - 128u;
  if (how & 8) p->head.id += byte() - 128u;
  if (how & 16 && p->n > 0) p->n = byte() % (p->n + 1);
  for (unsigned k = how >> 5; k > 0 && p->n > 8; k--) {
    size_t place = byte() * 8u % (p->n - 7);
    uint8_t b = byte();
    if (b & 1)
      take(p->body + place, 8);
    else
      p->body[place] = (char)(p->body[place] + (b >> 1) - 64);
  }
}

/* A message that nobody has sent, mostly about what there is. */
static void a_made_up_one(void) {
  alignas(8) char body[sizeof(struct fs_names_call) + 64] = {0};
  uint32_t from = byte() % SIM_RANKS, to = byte() % SIM_RANKS;
  const char *name, *name2;
  uint8_t how = byte();
  if (from == to || world.dead[to]) return;
  world.hostile = true;
  struct fs_names_call *c = (void *)body;
  const struct fs_op *op;
  c->op = an_op(how % 3);
  op = fs_call_op(c);
  for (uint8_t place = offsetof(struct fs_names_call, lookup); place < sizeof(*c); place += 8)
    *fs_call_at(c, place) = how & 8 ? byte() : an_id();
  if (op->dir) *fs_call_at(c, op->dir) = a_dir();
  if (op->id) *fs_call_at(c, op->id) = an_id();
  c->flags = byte() & op->flags;
  name = op->tail && how & 16 ? a_name() : "";
  name2 = op->tail2 && how & 32 ? "g" : "";
  size_t n = fs_call_put(c, name, strlen(name), name2, strlen(name2));
  struct fs_ns_message head = {.id = byte(), .set = world.ns[to]->members.number + (how & 64 ? byte() : 0)};
  fs_ns_receive(world.ns[to], world.now, from, &head, body, n);
}

static void a_cut(bool heal) {
  uint32_t a = byte() % SIM_RANKS, b = byte() % SIM_RANKS;
  world.cut[a][b] = !heal;
  cut = cut || !heal;
}

static void a_death(void) {
  uint32_t rank = byte() % SIM_RANKS, living = 0;
  for (uint32_t i = 0; i < SIM_RANKS; i++) living += !world.dead[i];
  if (living <= 1 || world.dead[rank]) return;
  sim_kill(rank);
  deaths++;
}

static void an_event(void) {
  uint8_t what = byte();
  switch (what & 31) {
  case 0:
    a_death();
    break;
  case 1:
    a_cut(false);
    break;
  case 2:
  case 3:
    a_cut(true);
    break;
  case 4:
  case 5:
    a_loss();
    break;
  case 6:
  case 7:
  case 8:
  case 9:
    a_change();
    break;
  case 10:
  case 11:
  case 12:
    a_made_up_one();
    break;
  case 13:
    for (unsigned k = byte() * 16u; k > 0; k--) sim_step();
    break;
  default:
    if (what & 16) a_call();
    for (unsigned k = what >> 5; k > 0; k--) sim_step();
  }
}

static bool calls_are_under_way(void) {
  for (uint32_t i = 0; i < CALLS; i++)
    if (at[i].used && !calls[i].done && !world.dead[at[i].rank]) return true;
  return false;
}

static void the_end(void) {
  memset(world.cut, 0, sizeof(world.cut));
  for (unsigned steps = 0; calls_are_under_way(); steps++) {
    if (steps > ENDS) abort();
    sim_step();
  }
  if (world.hostile || cut || deaths > 1) return;
  sim_settle();
  sim_check_backups();
}

/* What the services hold most memory with. */
static void bury(void) {
  for (; graves > 0; graves--) {
    struct fs_ns *ns = graveyard[graves - 1];
    fs_names_free(ns->names);
    free(ns->suspect);
    free(ns);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  in = (struct input){data, size};
  random_seed(byte());
  memset(at, 0, sizeof(at));
  mades = deaths = 0;
  cut = false;
  sim_start(SIM_RANKS);
  bury();
  while (in.left > 0) an_event();
  the_end();
  return 0;
}
