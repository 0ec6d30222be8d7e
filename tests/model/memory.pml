/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that several processes share, as weak as the code may meet it: a store waits in its process until it becomes visible,
 * at any later time and in any order with the process's other stores (x86: in order only; so this covers more). RELEASE comes after all
 * stores before it, but may itself become visible after later loads; FENCE waits until all stores are visible. Loads happen
 * in the order of the program: the code's are acquire, or are followed by an acquire fence. Atomic exchanges and swaps
 * (LOCKED) see and make visible what is there at one moment.
 *
 * A model defines PROCS and CELLS (9 at most) before it includes this. Cell 0 is not used.
 */
byte mem[CELLS];
byte late[PROCS * CELLS];
bool waits[PROCS * CELLS];
byte waiting[PROCS]; /* stores that are not visible yet */

#define AT(p, c) ((p) * CELLS + (c))
#define LOAD(p, c) (waits[AT(p, c)] -> late[AT(p, c)] : mem[c])
#define STORE(p, c, v)                                                     \
  atomic {                                                                 \
    if                                                                     \
    :: waits[AT(p, c)] -> skip                                             \
    :: else -> waits[AT(p, c)] = true; waiting[p]++                        \
    fi;                                                                    \
    late[AT(p, c)] = v                                                     \
  }
#define FENCE(p) (waiting[p] == 0)
#define RELEASE(p, c, v) FENCE(p); STORE(p, c, v)
#define LOCKED(p) FENCE(p) /* in front of an atomic { } that reads and writes mem[] */

#define SHOW(c)                                                            \
  atomic {                                                                 \
    c < CELLS && waits[AT(_pid, c)] -> mem[c] = late[AT(_pid, c)];         \
    late[AT(_pid, c)] = 0; waits[AT(_pid, c)] = false; waiting[_pid]--     \
  }

active [PROCS] proctype visible() {
end:
  do
  :: SHOW(1) :: SHOW(2) :: SHOW(3) :: SHOW(4) :: SHOW(5) :: SHOW(6) :: SHOW(7) :: SHOW(8)
  od
}
