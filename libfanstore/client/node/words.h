/* SPDX-License-Identifier: BSD-3-Clause */
/* Words in the daemon's memory that calls on outputs read without attaching. Each pointer leads to a
   word that is 0 until this process has met its daemon (attach.c). */
#ifndef FS_CLIENT_NODE_WORDS_H
#define FS_CLIENT_NODE_WORDS_H

#include "util/base.h"

/* Is not 0 if this node's outputs have reached their limit. */
extern FS_INTERNAL const _Atomic uint32_t *_Atomic fs_output_full_word;
static inline bool fs_output_full(void) {
  const _Atomic uint32_t *full = atomic_load_explicit(&fs_output_full_word, memory_order_relaxed);
  return atomic_load_explicit(full, memory_order_relaxed) != 0;
}
/* Has FS_NL_NAMES and FS_NL_SHADOWS, if there are names of this node (names/nodelocal.h), and
   FS_NL_TAKEN, if a dataset's name was taken (names/overlay.h). */
extern FS_INTERNAL const _Atomic uint32_t *_Atomic fs_nl_any_word;
struct fs_node;
/* Lets fs_nl_any_word lead to the word of this node. Called before a dataset's index is published,
   so that no name is looked at before the word. */
void fs_words_of(const struct fs_node *node);

#endif
