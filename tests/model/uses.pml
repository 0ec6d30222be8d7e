/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls under way (docs/internals/descriptors.md, section 3; libfanstore/client/fd/fduse.c, fdtab.c, fddup.c): two threads make calls on a number while
 * a third puts one file after another at it by dup2. A call finishes on the file that it began on, so the slot is neither freed nor
 * another file's until then; and the number, which is always open, is never refused.
 *
 * right: -DROUNDS=2 -DREPLACED=2
 * right: -DROUNDS=1 -DREPLACED=3
 * wrong: -DROUNDS=2 -DREPLACED=2 -DNO_BARRIER
 * wrong: -DROUNDS=2 -DREPLACED=2 -DLOOK_FIRST
 * wrong: -DROUNDS=2 -DREPLACED=2 -DNO_REREAD
 * wrong: -DROUNDS=2 -DREPLACED=2 -DNO_WORDS
 * wrong: -DROUNDS=2 -DREPLACED=2 -DEMPTY_FIRST
 */
#define PROCS 3
#define CELLS 4
#define ENTRY 1
#define WORD(p) (ENTRY + (p))
#include "memory.pml"

#define REPLACER 0 /* 1 and 2: the threads that make calls */
#define SLOTS 4    /* 1 and up: the one that is open, two that calls hold, a new one */
#define OPEN(slot) (gen[slot] * 8 + (slot))
#define SLOT(e) ((e) % 8)
#define GEN(e) ((e) / 8)
#define F_FREE 0
#define F_OPEN 1
#define F_RETIRED 2

byte gen[SLOTS + 1];
byte is[SLOTS + 1];

init { atomic { is[1] = F_OPEN; mem[ENTRY] = OPEN(1); run replacer(); run caller(1); run caller(2) } }

#ifdef NO_WORDS
#define NAME(me, slot) skip
#else
#define NAME(me, slot) STORE(me, WORD(me), slot)
#endif
#ifdef NO_REREAD
#define READ_AGAIN now = e
#else
#define READ_AGAIN now = mem[ENTRY]
#endif

proctype caller(byte me) {
  byte rounds, e, now;
  do
  :: rounds == ROUNDS -> break
  :: else -> rounds++;
     e = mem[ENTRY];
     do
     :: NAME(me, SLOT(e));
        READ_AGAIN;
        if
        :: now == e -> break
        :: else -> e = now
        fi
     od;
     assert(e != 0 && gen[SLOT(e)] == GEN(e)); /* it is looked at: not refused */
     assert(gen[SLOT(e)] == GEN(e));           /* and at the end of the call it is the same file still */
     RELEASE(me, WORD(me), 0);
     e = 0; now = 0
  od
}

inline look(slot) {
  seen = mem[WORD(1)] == (slot);
  seen = seen || mem[WORD(2)] == (slot)
}

/* The system call: each thread's stores are visible at some moment after the exchange. */
#ifdef NO_BARRIER
#define BARRIER skip
#else
#define BARRIER FENCE(1); FENCE(2)
#endif

inline free_slot(slot) { d_step { gen[slot]++; is[slot] = F_FREE } }

inline reap() {
  i = 1;
  do
  :: i > SLOTS -> break
  :: i <= SLOTS && is[i] == F_RETIRED ->
     look(i);
     if
     :: seen -> skip
     :: else -> free_slot(i)
     fi;
     i++
  :: else -> i++
  od
}

proctype replacer() {
  byte i, f, old;
  byte n;
  bool seen;
  do
  :: n == REPLACED -> break
  :: else -> n++;
     reap();
     if
     :: is[1] == F_FREE -> f = 1
     :: is[2] == F_FREE -> f = 2
     :: is[3] == F_FREE -> f = 3
     :: is[4] == F_FREE -> f = 4
     fi;
     is[f] = F_OPEN;
#ifdef LOOK_FIRST
     old = mem[ENTRY];
     BARRIER;
     look(SLOT(old));
     atomic { FENCE(REPLACER) -> mem[ENTRY] = OPEN(f) };
#else
#ifdef EMPTY_FIRST
     atomic { FENCE(REPLACER) -> old = mem[ENTRY]; mem[ENTRY] = 0 };
     atomic { FENCE(REPLACER) -> mem[ENTRY] = OPEN(f) };
#else
     atomic { FENCE(REPLACER) -> old = mem[ENTRY]; mem[ENTRY] = OPEN(f) };
#endif
     BARRIER;
     look(SLOT(old));
#endif
     if
     :: seen -> is[SLOT(old)] = F_RETIRED
     :: else -> free_slot(SLOT(old))
     fi;
     f = 0; old = 0; seen = false; i = 0
  od
}
