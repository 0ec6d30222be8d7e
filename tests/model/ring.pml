/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of blocks wanted ahead (docs/internals/shared-memory.md, "Blocks that are wanted ahead"; libfanstore/client/read/remote.c, daemon/blocks/prefetch.c): two threads
 * put keys into a ring of two words, the daemon takes them. Each key is taken once, in the order of the reservations, and none is written over.
 *
 * right: -DKEYS=3
 * wrong: -DKEYS=3 -DNO_ROOM_CHECK
 * wrong: -DKEYS=3 -DRESERVE_BY_STORE
 * wrong: -DKEYS=3 -DCLEAR_AFTER_TAIL
 * wrong: -DKEYS=3 -DTAIL_NOT_RELEASED
 */
#define PROCS 3
#define CELLS 5
#define HEAD 1
#define TAIL 2
#define WORD(i) (3 + (i) % 2)
#include "memory.pml"

#define DAEMON 0 /* 1 and 2: the threads */

byte reserved[2 * KEYS]; /* key by number of the reservation */
byte taken;

init { atomic { run daemon(); run thread(1); run thread(2) } }

proctype thread(byte me) {
  byte n, head;
  do
  :: n == KEYS -> break
  :: else ->
     head = mem[HEAD];
     if
#ifndef NO_ROOM_CHECK
     :: head - mem[TAIL] >= 2 -> skip /* full: tried later */
#endif
#ifdef RESERVE_BY_STORE
     :: head - mem[TAIL] < 2 -> STORE(me, HEAD, head + 1); FENCE(me);
#else
#ifdef NO_ROOM_CHECK
     :: true ->
#else
     :: head - mem[TAIL] < 2 ->
#endif
        if
        :: atomic { waiting[me] == 0 && mem[HEAD] != head -> goto again }
        :: atomic { waiting[me] == 0 && mem[HEAD] == head -> mem[HEAD] = head + 1 }
        fi;
#endif
        n++;
        d_step { reserved[head] = 10 * me + n; assert(mem[WORD(head)] == 0) }
        STORE(me, WORD(head), 10 * me + n);
        FENCE(me)
     fi;
again:
     skip
  od
}

proctype daemon() {
  byte key;
end:
  do
  :: mem[WORD(taken)] != 0 ->
     key = mem[WORD(taken)];
     assert(key == reserved[taken]);
#ifdef CLEAR_AFTER_TAIL
     taken++;
     STORE(DAEMON, TAIL, taken);
     FENCE(DAEMON);
     STORE(DAEMON, WORD(taken - 1), 0);
     FENCE(DAEMON)
#else
     STORE(DAEMON, WORD(taken), 0);
     taken++;
#ifndef TAIL_NOT_RELEASED
     FENCE(DAEMON);
#endif
     STORE(DAEMON, TAIL, taken);
     FENCE(DAEMON)
#endif
  :: taken == 2 * KEYS -> break
  od;
  assert(mem[HEAD] == 2 * KEYS)
}
