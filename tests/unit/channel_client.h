/* SPDX-License-Identifier: BSD-3-Clause */
/* A client that does at random all that clients do with a channel, by the library's own code. The daemon's headers and
 * the client's do not go together in one file. */
#ifndef FS_TEST_CHANNEL_CLIENT_H
#define FS_TEST_CHANNEL_CLIENT_H

#include "cache/cache.h"
#include "ipc/layout.h"

#define STRESS_BLOCKS 400u
#define STRESS_BLOCK 1000u

struct client_world {
  struct fs_ctl *ctl;
  struct fs_cache_view view;
  const unsigned char *stored; /* STRESS_BLOCKS times STRESS_BLOCK */
  int doorbell, socket;
};

struct client_counts {
  uint64_t reads, hits, given_up, elsewhere, cancelled, wanted, ahead, pinned, calls;
};

/* So many rounds of it. Without patience a request is given up after up to 2 ms; with it none may be unanswered. */
void client_run(const struct client_world *w, struct fs_channel *channel, uint64_t seed, bool patient, uint64_t rounds,
                struct client_counts *counts);

static inline uint64_t stress_random(uint64_t *state) {
  uint64_t x = (*state += 0x9e3779b97f4a7c15ull);
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

/* In any thread and process: cmocka's assertions are for its own thread alone. */
#define STRESS(x)                                                                                                      \
  do {                                                                                                                 \
    if (!(x)) {                                                                                                        \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                                          \
      _exit(1);                                                                                                        \
    }                                                                                                                  \
  } while (0)

#endif
