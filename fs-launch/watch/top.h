/* SPDX-License-Identifier: BSD-3-Clause */
/* What fs-launch top shows and how: the state that keys change (top.c), and the drawing (draw.c). */
#ifndef FS_LAUNCH_WATCH_TOP_H
#define FS_LAUNCH_WATCH_TOP_H

#include "watch.h"

struct fs_top {
  const struct fs_watch *watch;
  char sort; /* key of the column that sorts: 'n' is the node */
  bool reverse;
  uint32_t row;    /* the first row that is shown, of the sorted nodes */
  unsigned column; /* the first column that is shown, of those that scroll */
  int page;        /* rows that fitted when it was drawn */
  uint32_t *order; /* the nodes as they are sorted, of watch->view.nodes */
};

/* Draws all of it on the screen, after it has sorted the nodes. */
void fs_top_draw(struct fs_top *t);
bool fs_top_sorts(int key); /* true if a column has this key */
unsigned fs_top_columns(void);

#endif
