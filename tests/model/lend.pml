/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records that a directory's primary lends (docs/internals/metadata.md, "Lent records"; libfanstore/daemon/metadata/ns_lend.c,
 * ns_borrow.c): a primary P, its backup B, a borrower R. At any moment the others evict P, which B knows first, and P, perhaps
 * alive, never; then B is the primary. Messages between two ranks keep their order. A program of R that reads after a change has
 * returned does not read what was before it.
 *
 * right: -DCHANGES=2
 * right: -DCHANGES=3
 * wrong: -DCHANGES=2 -DNO_RECALL
 * wrong: -DCHANGES=2 -DNO_WAIT
 * wrong: -DCHANGES=2 -DNO_SET_FIRST
 * wrong: -DCHANGES=2 -DNO_SET_CHECK
 * wrong: -DCHANGES=2 -DKEEP_AT_SET
 */
mtype = { LOOKUP, LENT, RECALL, ACK, BACKUP, OK, STALE, SET };

chan p2r = [3] of { mtype, byte, byte };
chan b2r = [3] of { mtype, byte, byte };
chan r2p = [3] of { mtype };
chan r2b = [3] of { mtype };
chan p2b = [1] of { mtype, byte };
chan b2p = [1] of { mtype };

byte returned; /* the newest change that has returned */

active proctype primary() {
  byte value, changes;
  bool lent, stale;
end:
  do
  :: r2p ? LOOKUP -> lent = true; p2r ! LENT(value, 1)
  :: r2p ? ACK /* only with NO_WAIT */
  :: !stale && changes < CHANGES ->
     changes++;
#ifndef NO_RECALL
     if
     :: lent ->
        p2r ! RECALL(0, 0);
        lent = false;
#ifndef NO_WAIT
        do
        :: r2p ? ACK -> break
        :: r2p ? LOOKUP /* answered without lending; R asks again */
        od
#endif
     :: else
     fi;
#endif
     p2b ! BACKUP(value + 1);
     if
     :: b2p ? OK ->
        value++;
        atomic { returned = (returned < value -> value : returned) }
     :: b2p ? STALE -> stale = true /* the caller asks B */
     fi
  od
}

active proctype backup() {
  byte value, changes, set = 1, v;
  bool known, lent;
end:
  do
  :: p2b ? BACKUP(v) ->
     if
     :: set == 1 -> value = v; b2p ! OK
     :: else -> b2p ! STALE
     fi
  :: set == 1 -> set = 2 /* P is evicted */
  :: known && r2b ? [LOOKUP] -> r2b ? LOOKUP; lent = true; b2r ! LENT(value, 2)
  :: !known && r2b ? [LOOKUP] -> r2b ? LOOKUP
  :: r2b ? ACK
  :: set == 2 && changes < CHANGES ->
     changes++;
#ifndef NO_SET_FIRST
     if
     :: !known ->
        b2r ! SET(0, 0);
        do
        :: r2b ? ACK -> break
        :: r2b ? LOOKUP
        od
     :: else
     fi;
#endif
     known = true;
#ifndef NO_RECALL
     if
     :: lent ->
        b2r ! RECALL(0, 0);
        lent = false;
#ifndef NO_WAIT
        do
        :: r2b ? ACK -> break
        :: r2b ? LOOKUP
        od
#endif
     :: else
     fi;
#endif
     value++;
     returned = value
  od
}

active proctype borrower() {
  byte value, set = 1, v, s, before, asked;
  bool has;
end:
  do
  :: p2r ? LENT(v, s) ->
     if
#ifndef NO_SET_CHECK
     :: s != set
     :: else ->
#else
     :: true ->
#endif
        has = true; value = v
     fi
  :: p2r ? RECALL(_, _) ->
     if
     :: set == 1 -> has = false
     :: else /* what B has lent is another's; here it would be dropped, too */
     fi;
     r2p ! ACK
  :: b2r ? LENT(v, s) ->
     if
     :: s != set
     :: else -> has = true; value = v
     fi
  :: b2r ? RECALL(_, _) -> has = false; r2b ! ACK
  :: b2r ? SET(_, _) ->
     set = 2;
#ifndef KEEP_AT_SET
     has = false;
#endif
     r2b ! ACK
  :: asked < 4 && set == 1 && nfull(r2p) -> asked++; r2p ! LOOKUP
  :: asked < 4 && set == 2 && nfull(r2b) -> asked++; r2b ! LOOKUP
  :: asked < 4 && set == 1 -> set = 2; /* R hears of the eviction in another way */
#ifndef KEEP_AT_SET
     has = false
#endif
  :: has ->
     before = returned;
     if
     :: has -> assert(value >= before)
     fi
  od
}
