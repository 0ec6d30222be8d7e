/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches (docs/internals/output-bytes.md, "Batches"; libfanstore/daemon/outputs/batch.c, libfanstore/client/outputs/batch.c):
 * a writer on the home that publishes what it has written, a home that makes batches, and a program of another node that opens
 * the file by one of them. Old batches stay in the cache. What is opened after a publication has returned has the bytes of that
 * publication, or newer ones.
 *
 * right: -DCHANGES=3
 * wrong: -DCHANGES=3 -DNO_VERSION
 * wrong: -DCHANGES=3 -DVERSION_LATE
 * wrong: -DCHANGES=3 -DNUMBER_EARLY
 */
byte bytes;    /* of the backing file: how often it was written */
byte number;   /* of the home's last publication of it */
byte record;   /* its version in shared memory */
byte returned; /* the bytes of the last publication that has returned */

#define BATCHES 2
byte version[BATCHES], has[BATCHES]; /* in the cache; version 0: none */

active proctype writer() {
  byte i, written;
  do
  :: i < CHANGES ->
     i++;
#ifdef NUMBER_EARLY
     number++;
#endif
     bytes++; /* a write, by the kernel */
     written = bytes;
#ifndef NUMBER_EARLY
     number++; /* the daemon begins to publish */
#endif
     record = number;    /* primary and backup have it */
     returned = written; /* close returns */
  :: else -> break
  od
}

active proctype home() {
  byte i, v, got;
  do
  :: i < BATCHES ->
#ifdef VERSION_LATE
     got = bytes;
     v = number;
#else
     v = number;  /* the MPI thread */
     got = bytes; /* the I/O pool */
#endif
     atomic {
       version[i] = v;
       has[i] = got;
       i++
     }
  :: else -> break
  od
}

active proctype reader() {
  byte i, now, v, seen;
  bool some;
  do
  :: i < 4 ->
     i++;
     now = returned; /* another program has told this one of it */
     v = record;
     atomic { /* a copy out of the cache is whole */
       some = false;
       if
       :: version[0] != 0 -> some = true; seen = has[0]; v = (version[0] == v -> v : v + 100)
       :: version[1] != 0 -> some = true; seen = has[1]; v = (version[1] == v -> v : v + 100)
       :: skip
       fi
     }
#ifndef NO_VERSION
     some = some && v < 100;
#endif
     assert(!some || seen >= now) /* else the home is asked */
  :: else -> break
  od
}
