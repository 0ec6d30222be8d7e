/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges that were written (docs/internals/shared-memory.md; libfanstore/ipc/written.h; libfanstore/daemon/outputs/written.c): a client
 * that writes the next byte each time, or notes a range of its own for it, and may be killed at any moment; the daemon, which takes
 * and publishes, and may fail once. What a call has written is published after that, unless the client is killed, and no range is
 * published twice. A range is the
 * numbers of its writes. All words are sequentially consistent here; the code releases and acquires head, tail and len.
 *
 * right: -DWRITES=5
 * wrong: -DWRITES=4 -DNO_TAKEN
 * wrong: -DWRITES=4 -DNO_SWAP
 * wrong: -DWRITES=4 -DHEAD_FIRST
 * wrong: -DWRITES=4 -DTAIL_FIRST
 */
#define PLACES 2 /* and as many unpublished ranges */

byte head, tail; /* never wrap here */
byte from[PLACES], upto[PLACES]; /* a range has the writes from..upto */
bool taken[PLACES];
byte wrote;    /* calls that have returned */
byte inside;   /* the write that is in the segment */
bool published[WRITES + 2];
bool dead, killed;
byte running = 1;

/* Two words in the code, before the head that makes them known. */
inline fill(h, i) {
  d_step { from[h % PLACES] = i; upto[h % PLACES] = i; taken[h % PLACES] = false }
}

proctype client() {
  byte i = 1, h, last;
  bool joined;
  do
  :: i > WRITES || dead -> break
  :: else ->
     inside = i;
again:
     h = head;
     joined = false;
     if
     :: h != tail ->
        last = upto[(h - 1) % PLACES];
#ifdef NO_SWAP
        if
        :: taken[(h - 1) % PLACES] -> skip
        :: else -> upto[(h - 1) % PLACES] = i; joined = true
        fi
#else
        d_step {
          if
          :: !taken[(h - 1) % PLACES] && upto[(h - 1) % PLACES] == last -> upto[(h - 1) % PLACES] = i; joined = true
          :: else -> skip
          fi
        }
#endif
     :: true -> skip /* elsewhere in the file */
     fi;
     if
     :: !joined && h - tail == PLACES -> goto again /* full: the daemon publishes */
     :: !joined && h - tail < PLACES ->
#ifdef HEAD_FIRST
        head = h + 1;
        fill(h, i)
#else
        fill(h, i);
        head = h + 1
#endif
     :: joined -> skip
     fi;
     wrote = i;
     i++
  od;
  atomic { dead = true; running-- }
}

proctype killer() {
  killed = true;
  dead = true
}

proctype daemon() {
  byte mine, to, k, n, a[PLACES], b[PLACES];
  bool failed;
  do
  :: head != mine ->
     to = head;
     assert(to - mine <= PLACES);
     k = mine;
     do
     :: k == to -> break
     :: else ->
        d_step {
#ifndef NO_TAKEN
          taken[k % PLACES] = true;
#endif
          a[k % PLACES] = from[k % PLACES];
          b[k % PLACES] = upto[k % PLACES]
        };
        k++
     od;
#ifdef TAIL_FIRST
     tail = to;
#endif
     if
     :: !failed -> failed = true; goto next /* the home has refused them, and is asked again */
     :: true -> skip
     fi;
     k = mine;
     do
     :: k == to -> break
     :: else ->
        assert(a[k % PLACES] <= inside);
        n = a[k % PLACES];
        do
        :: n > b[k % PLACES] -> break
        :: else ->
           assert(!published[n]);
           published[n] = true;
           n++
        od;
        k++
     od;
     mine = to;
     tail = to;
next: skip
  :: dead && running == 0 && head == mine -> break
  :: killed -> goto over /* the rest is not published any more */
  od;
  n = 1;
  do
  :: n > wrote || killed -> break
  :: else -> assert(published[n]); n++
  od;
over: skip
}

init {
  atomic { run client(); run killer(); run daemon() }
}
