/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records in shared memory (docs/internals/metadata.md, "Records in shared memory"; libfanstore/ipc/record_table.c,
 * daemon/metadata/shared_names.c): one record of two words, a daemon that changes it or dies in the middle, two readers. What a
 * reader takes is one whole state, and none that is older than one that it took before. After a death nobody takes anything new.
 *
 * right: -DROUNDS=3
 * right: -DROUNDS=3 -DDIES
 * wrong: -DROUNDS=2 -DNO_ODD
 * wrong: -DROUNDS=2 -DNO_ODD_FENCE
 * wrong: -DROUNDS=2 -DNO_EVEN_RELEASE
 * wrong: -DROUNDS=2 -DNO_LOOK_BEFORE
 * wrong: -DROUNDS=2 -DNO_LOOK_AFTER
 */
#define PROCS 3
#define CELLS 4
#define SEQ 1
#define WORD(i) (2 + (i))
#include "memory.pml"

#define DAEMON 0 /* 1 and 2: the readers */

bool dead;

init { atomic { run daemon(); run reader(1); run reader(2) } }

proctype daemon() {
  byte seq;
  do
  :: seq == 2 * ROUNDS -> break
  :: else ->
#ifndef NO_ODD
     STORE(DAEMON, SEQ, seq + 1);
#ifndef NO_ODD_FENCE
     FENCE(DAEMON);
#endif
#endif
     STORE(DAEMON, WORD(0), seq + 2);
#ifdef DIES
     if
     :: dead = true; break
     :: skip
     fi;
#endif
     STORE(DAEMON, WORD(1), seq + 2);
     seq = seq + 2;
#ifndef NO_EVEN_RELEASE
     FENCE(DAEMON);
#endif
     STORE(DAEMON, SEQ, seq)
  od
}

proctype reader(byte me) {
  byte tries, before, a, b, after, last;
  do
  :: tries == 3 -> break
  :: else -> tries++;
     before = LOAD(me, SEQ);
     if
#ifndef NO_LOOK_BEFORE
     :: before & 1 -> skip /* it asks */
     :: else ->
#else
     :: true ->
#endif
        a = LOAD(me, WORD(0));
        b = LOAD(me, WORD(1));
        after = LOAD(me, SEQ);
        if
#ifndef NO_LOOK_AFTER
        :: after != before -> skip
        :: else ->
#else
        :: true ->
#endif
           assert(a == b);
           assert(a >= last);
           last = a
        fi
     fi
  od
}
