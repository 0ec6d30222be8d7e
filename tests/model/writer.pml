/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writers of output files (docs/internals/several-writers.md; libfanstore/client/outputs/write.c): two threads open, write and close
 * one file, a third another one, and so takes what the first two have dropped; a fourth writes by a descriptor that is
 * closed meanwhile; an open may fail. A writer that a call has in hand is that file's; what was noted in it is published; and when all is
 * closed no writer is left. All words are atomic and sequentially consistent in the code, too.
 *
 * right: -DROUNDS=1
 * right: -DROUNDS=2 -DNO_THIRD
 * right: -DROUNDS=2 -DNO_FOURTH
 * right: -DROUNDS=1 -DNO_THIRD -DFAILING
 * wrong: -DROUNDS=1 -DNO_USES
 * wrong: -DROUNDS=1 -DNO_ENDS
 * wrong: -DROUNDS=2 -DNO_FOURTH -DNO_LEFT_LOOP
 * wrong: -DROUNDS=1 -DNO_DONE_LEFT
 * wrong: -DROUNDS=1 -DNO_LATE
 * wrong: -DROUNDS=1 -DNO_THIRD -DFAILING -DNO_END_OF_FAILED
 */
#define FILES 2
#define WRITERS 3

byte word[FILES + 1]; /* the file's writer; 0: none */
byte uses[FILES + 1];
bool ends[FILES + 1], left[FILES + 1];
byte opens[FILES + 1]; /* descriptors */
byte wrote[FILES + 1], published[FILES + 1];
byte running;

bool sealed[WRITERS + 1], spare[WRITERS + 1];
byte count[WRITERS + 1];
byte part[WRITERS + 1]; /* whose part it has open; 0: none */

#ifdef NO_USES
#define MORE(f) skip
#define LESS(f) skip
#else
#define MORE(f) uses[f]++
#define LESS(f) uses[f]--
#endif
#ifdef NO_ENDS
#define TAKE(f) MORE(f)
#else
#define TAKE(f) atomic { !ends[f] -> MORE(f) }
#endif

inline drop(w) { d_step { part[w] = 0; count[w] = 0; sealed[w] = false }; spare[w] = true }

/* What the last call does that had it in hand when the file was closed: see REST. */
inline done(f) {
  atomic {
    if
#ifndef NO_DONE_LEFT
    :: uses[f] == 1 && left[f] -> left[f] = false; rest = true
#endif
    :: else -> skip
    fi;
    LESS(f)
  }
}

inline publish(f) {
  TAKE(f);
  v = word[f];
  if
  :: v != 0 ->
     atomic { !sealed[v] -> sealed[v] = true; n = count[v] };
     assert(part[v] == f);
     atomic { count[v] = count[v] - n; published[f] = published[f] + n; sealed[v] = false; n = 0 }
  :: else -> skip
  fi;
  v = 0;
  done(f)
}

inline end(f) {
  mine = word[f] == 0; /* of a file that nobody writes there is nothing to do; the word first */
  mine = mine && uses[f] == 0;
  do
  :: mine -> break
  :: else ->
     atomic {
       if
       :: uses[f] == 0 && !ends[f] -> ends[f] = true; mine = true
       :: else -> left[f] = true; mine = false
       fi
     };
     if
     :: !mine -> break
     :: else -> skip
     fi;
     e = word[f];
     closed = opens[f] == 0;
     late = e != 0 && closed && count[e] > 0;
     if
     :: e != 0 && closed && !late -> word[f] = 0; drop(e)
     :: else -> skip
     fi;
     e = 0;
     atomic { again = left[f]; ends[f] = false; left[f] = false };
#ifndef NO_LATE
     if
     :: late -> publish(f); again = true
     :: else -> skip
     fi;
#endif
     if
#ifdef NO_LEFT_LOOP
     :: true -> break
#else
     :: !again -> break
     :: again -> mine = false
#endif
     fi
  od;
  mine = false; again = false; closed = false; late = false
}

#define REST                                                               \
  do                                                                       \
  :: !rest -> break                                                        \
  :: else ->                                                               \
     rest = false;                                                         \
     if                                                                    \
     :: opens[f] == 0 -> publish(f); end(f)                                \
     :: else -> skip                                                       \
     fi                                                                    \
  od

inline not_open(f) {
  d_step { last = opens[f] == 1; opens[f]-- };
  if
  :: last -> end(f); REST
  :: else -> skip
  fi;
  last = false
}

/* In hand until done. */
inline writer_of(f, w) {
  TAKE(f);
  w = word[f];
  if
  :: w == 0 ->
     atomic {
       if
       :: spare[1] -> w = 1
       :: spare[2] -> w = 2
       :: spare[3] -> w = 3
       fi;
       spare[w] = false; part[w] = f
     };
     atomic {
       if
       :: word[f] == 0 -> word[f] = w
       :: else -> v = w; w = word[f]
       fi
     };
     if
     :: v != 0 -> drop(v); v = 0
     :: else -> skip
     fi
  :: else -> skip
  fi
}

inline write(f, w) {
  assert(part[w] == f); /* pwrite */
  atomic { assert(part[w] == f); count[w]++; wrote[f]++ }
}

#define LOCALS byte w, v, e, n, rounds; bool mine, again, closed, late, last, rest

proctype opener(byte f) {
  LOCALS;
  do
  :: rounds == ROUNDS -> break
  :: else -> rounds++;
     opens[f]++;
     writer_of(f, w);
     write(f, w);
     w = 0;
     done(f); REST;
     publish(f); REST;
     not_open(f)
  od;
  running--
}

/* While it writes, it publishes: then the file counts as open once more, and the last close may be its. */
proctype writer(byte f) {
  LOCALS;
  bool pinned;
  atomic { pinned = opens[f] > 0; opens[f] = opens[f] + pinned };
  if
  :: pinned ->
     writer_of(f, w);
     not_open(f);
     write(f, w);
     w = 0;
     done(f); REST
  :: else -> skip
  fi;
  running--
}

/* An open that fails when the file is counted as open already. */
proctype failing(byte f) {
  LOCALS;
  opens[f]++;
#ifdef NO_END_OF_FAILED
  opens[f]--;
#else
  not_open(f);
#endif
  running--
}

init {
  atomic {
    spare[1] = true; spare[2] = true; spare[3] = true;
    running = 2;
    run opener(1); run opener(1);
#ifndef NO_THIRD
    running++;
    run opener(2);
#endif
#ifndef NO_FOURTH
    running++;
    run writer(1);
#endif
#ifdef FAILING
    running++;
    run failing(1)
#endif
  };
  running == 0;
  assert(wrote[1] == published[1] && wrote[2] == published[2]);
  assert(word[1] == 0 && word[2] == 0)
}
