/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's cache (docs/internals/shared-memory.md, "Publish, pin, evict"; libfanstore/cache): one line, two extents of two words each, a daemon that evicts
 * and publishes, a client that pins and one that copies without a pin. What a client takes for a key's bytes is that key's.
 *
 * Either with -DPINNING or with -DCOPYING: the clients have nothing to do with each other, and both at once are too many states.
 * The copying one does without EVICT_FENCE, which orders nothing where no client has pins that could be read.
 *
 * right: -DROUNDS=3 -DPINNING
 * right: -DROUNDS=3 -DCOPYING
 * right: -DROUNDS=2 -DCOPYING -DNO_EVICT_FENCE
 * wrong: -DROUNDS=2 -DPINNING -DNO_PIN_FENCE
 * wrong: -DROUNDS=2 -DPINNING -DNO_EVICT_FENCE
 * wrong: -DROUNDS=2 -DPINNING -DNO_TAG_CHECK
 * wrong: -DROUNDS=2 -DCOPYING -DNO_USES
 * wrong: -DROUNDS=2 -DCOPYING -DUSES_FIRST
 * wrong: -DROUNDS=2 -DCOPYING -DNO_EVICT_FENCE -DNO_REUSE_FENCE
 * wrong: -DROUNDS=2 -DCOPYING -DNO_EVICT_FENCE -DNO_USES_RELEASE
 */
#define PROCS 2
#define CELLS 9
#define TAG 1
#define OFF 2
#define USES 3
#define PIN 4
#define DATA 5 /* two words of extent 0, two of extent 1 */
#define OTHER 9 /* another block's bytes */
#include "memory.pml"

#define DAEMON 0
#define CLIENT 1
#define WORD(o, i) (DATA + 2 * (o) + (i))

#ifdef NO_PIN_FENCE
#define PIN_FENCE skip
#else
#define PIN_FENCE FENCE(CLIENT)
#endif
#ifdef NO_EVICT_FENCE
#define EVICT_FENCE skip
#else
#define EVICT_FENCE FENCE(DAEMON)
#endif
#ifdef NO_REUSE_FENCE
#define REUSE_FENCE skip
#else
#define REUSE_FENCE FENCE(DAEMON)
#endif

#ifdef NO_USES_RELEASE
#define USES_RELEASE skip
#else
#define USES_RELEASE FENCE(DAEMON)
#endif

init {
  atomic {
    mem[TAG] = 1; mem[WORD(0, 0)] = 1; mem[WORD(0, 1)] = 1;
    run daemon(); run client()
  }
}

proctype daemon() {
  byte rounds, key = 1, off = 0, uses = 0, next;
  do
  :: rounds == ROUNDS -> break
  :: else -> rounds++;
     STORE(DAEMON, TAG, 0);
     EVICT_FENCE;
     if
     :: mem[PIN] != 0 -> RELEASE(DAEMON, TAG, key)
     :: else ->
        if /* the extent goes to another line, or not */
        :: REUSE_FENCE; STORE(DAEMON, WORD(off, 0), OTHER); STORE(DAEMON, WORD(off, 1), OTHER); off = 1 - off
        :: off = 1 - off
        :: skip
        fi;
        uses++;
        USES_RELEASE;
        STORE(DAEMON, USES, uses);
        REUSE_FENCE;
        if
        :: key = 1
        :: key = 2
        fi;
        STORE(DAEMON, OFF, off);
        STORE(DAEMON, WORD(off, 0), key);
        STORE(DAEMON, WORD(off, 1), key);
        RELEASE(DAEMON, TAG, key)
     fi
  od
}

#ifdef PINNING
proctype client() {
  byte rounds, tag, off, a, b;
  do
  :: rounds == 2 -> break
  :: else -> rounds++;
     tag = mem[TAG];
     if
     :: tag != 1 -> skip
     :: else ->
        STORE(CLIENT, PIN, 1);
        PIN_FENCE;
#ifndef NO_TAG_CHECK
        tag = mem[TAG];
#endif
        if
        :: tag == 1 -> off = mem[OFF]; a = mem[WORD(off, 0)]; b = mem[WORD(off, 1)]; assert(a == 1 && b == 1)
        :: else -> skip
        fi;
        RELEASE(CLIENT, PIN, 0)
     fi
  od
}

#else
proctype client() {
  byte rounds, uses, tag, off, a, b, again;
  do
  :: rounds == 2 -> break
  :: else -> rounds++;
     uses = mem[USES];
     tag = mem[TAG];
     if
     :: tag != 1 -> skip
     :: else ->
        off = mem[OFF];
        a = mem[WORD(off, 0)];
        b = mem[WORD(off, 1)];
#ifdef USES_FIRST
        again = mem[USES];
        tag = mem[TAG];
#else
        tag = mem[TAG];
        again = mem[USES];
#endif
#ifdef NO_USES
        again = uses;
#endif
        if
        :: tag == 1 && again == uses -> assert(a == 1 && b == 1)
        :: else -> skip
        fi
     fi
  od
}
#endif
