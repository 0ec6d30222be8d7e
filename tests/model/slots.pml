/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request (docs/internals/shared-memory.md, "Requests"; libfanstore/ipc/channel.{h,c}, client/node/wait.c, daemon/{core/clients,loop}.c): a channel of one slot, two threads of a
 * client that want it, a daemon that sleeps when nothing is posted. Without GIVE_UP nothing here ends by time, so a wake-up that
 * is lost is an end that is none: an invalid end state. With it, threads give requests up at any moment. Who is told DONE has the
 * answer to its own question, with the line pinned; and the slot has one owner at a time.
 *
 * right: -DROUNDS=2
 * right: -DROUNDS=2 -DGIVE_UP
 * wrong: -DROUNDS=2 -DNO_FENCE_ASLEEP
 * wrong: -DROUNDS=2 -DLOOK_THEN_SLEEP
 * wrong: -DROUNDS=2 -DDONE_BY_STORE
 * wrong: -DROUNDS=2 -DPIN_AFTER_DONE
 * wrong: -DROUNDS=2 -DPOST_BY_STORE
 * wrong: -DROUNDS=2 -DGIVE_UP -DDONE_BY_STORE
 * wrong: -DROUNDS=2 -DGIVE_UP -DABANDON_BY_STORE
 * wrong: -DROUNDS=2 -DGIVE_UP -DABANDON_AND_FREE
 */
#define PROCS 3
#define CELLS 8
#define CLAIMED 1
#define POSTED 2
#define STATE 3
#define KEY 4
#define PIN 5
#define ANSWER 6
#define ASLEEP 7
#include "memory.pml"

#define DAEMON 0 /* 1 and 2: the threads */
#define S_FREE 0
#define S_POSTED 1
#define S_ASLEEP 2
#define S_DONE 3
#define S_ABANDONED 4

bool bell;
bool sleeps[PROCS];
byte owners; /* of the slot: threads that claimed it, or the daemon after they abandoned it */

#define SWAP(p, from, to) atomic { waiting[p] == 0 && mem[STATE] == from -> mem[STATE] = to }
#define WAITING (mem[STATE] == S_POSTED || mem[STATE] == S_ASLEEP)

#ifdef NO_FENCE_ASLEEP
#define ASLEEP_FENCE skip
#else
#define ASLEEP_FENCE FENCE(DAEMON)
#endif

init { atomic { run daemon(); run thread(1); run thread(2) } }

inline release(p) {
  STORE(p, PIN, 0);
  FENCE(p);
  STORE(p, STATE, S_FREE);
  atomic { waiting[p] == 0 -> owners--; mem[CLAIMED] = 0 }
}

proctype thread(byte me) {
  byte rounds;
  do
  :: rounds == ROUNDS -> break
  :: else -> rounds++;
     atomic { waiting[me] == 0 && mem[CLAIMED] == 0 -> mem[CLAIMED] = 1; owners++; assert(owners == 1) }
     STORE(me, KEY, me);
     RELEASE(me, STATE, S_POSTED);
#ifdef POST_BY_STORE
     STORE(me, POSTED, 1);
#else
     atomic { waiting[me] == 0 -> mem[POSTED] = 1 }
#endif
     if
     :: mem[ASLEEP] == 1 -> bell = true
     :: else -> skip
     fi;
     do
     :: mem[STATE] == S_DONE -> break
     :: mem[STATE] != S_DONE ->
        if
        :: SWAP(me, S_POSTED, S_ASLEEP)
        :: mem[STATE] != S_POSTED && waiting[me] == 0 -> skip
        fi;
        if
        :: atomic { mem[STATE] == S_ASLEEP -> sleeps[me] = true };
           if
           :: !sleeps[me] -> skip
#ifdef GIVE_UP
           :: atomic { sleeps[me] -> sleeps[me] = false }
#endif
           fi
        :: mem[STATE] != S_ASLEEP -> skip
        fi
#ifdef GIVE_UP
#ifdef ABANDON_BY_STORE
     :: WAITING -> STORE(me, STATE, S_ABANDONED); goto next
#else
     :: atomic { waiting[me] == 0 && WAITING -> mem[STATE] = S_ABANDONED };
#ifdef ABANDON_AND_FREE
        atomic { owners--; mem[CLAIMED] = 0 }
#endif
        goto next
#endif
#endif
     od;
     assert(mem[PIN] == 1 && mem[ANSWER] == me);
     release(me);
next:
     skip
  od
}

proctype daemon() {
  byte key, before;
  bool posted;
end:
  do
  :: atomic { waiting[DAEMON] == 0 && mem[POSTED] == 1 -> mem[POSTED] = 0 };
     if
     :: mem[STATE] == S_ABANDONED -> release(DAEMON)
     :: WAITING ->
        key = mem[KEY];
#ifndef PIN_AFTER_DONE
        STORE(DAEMON, PIN, 1);
#endif
        STORE(DAEMON, ANSWER, key);
#ifdef DONE_BY_STORE
        before = mem[STATE];
        RELEASE(DAEMON, STATE, S_DONE);
#else
        atomic { waiting[DAEMON] == 0 -> before = mem[STATE]; mem[STATE] = S_DONE }
#endif
#ifdef PIN_AFTER_DONE
        STORE(DAEMON, PIN, 1);
#endif
        if
        :: before == S_ASLEEP -> d_step { sleeps[1] = false; sleeps[2] = false }
        :: before == S_POSTED -> skip
        :: else -> release(DAEMON)
        fi;
        key = 0; before = 0
     :: else -> skip
     fi
  :: mem[POSTED] == 0 ->
#ifdef LOOK_THEN_SLEEP
     posted = (mem[POSTED] == 1);
     STORE(DAEMON, ASLEEP, 1);
     FENCE(DAEMON);
#else
     STORE(DAEMON, ASLEEP, 1);
     ASLEEP_FENCE;
     posted = (mem[POSTED] == 1);
#endif
     if
     :: posted -> skip
     :: else ->
endpoll:
        bell -> bell = false
     fi;
     STORE(DAEMON, ASLEEP, 0)
  od
}
