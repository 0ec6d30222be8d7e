/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private directories (docs/internals/metadata.md, "Private directories";
 * libfanstore/daemon/metadata/ns_private.c, ns_commit.c): an output directory, the rank P that
 * made it, its backup B, a third rank R. Change n makes name n, a bit in each set of names. P
 * may die at any moment; then B is the primary. Messages from P to B keep their order. With LOSS
 * one of them has no effect, or its answer is lost: the network loses it, or the two ranks have
 * different sets of members. A program of B or R sees every change that returned before its read
 * began, or, after P's death, those that a program of B or R had seen. Without LOSS a program of
 * B sees all that another one of B has seen, even changes that have not returned.
 *
 * right: -DCHANGES=4
 * right: -DCHANGES=3 -DLOSS
 * wrong: -DCHANGES=3 -DLOSS -DSHOW_AT_ONCE
 * wrong: -DCHANGES=3 -DLOSS -DNO_EAGAIN
 * wrong: -DCHANGES=3 -DNO_EAGAIN
 * wrong: -DCHANGES=3 -DSHOWN_FROM_START
 * wrong: -DCHANGES=3 -DEARLY_AFTER_SHOW
 */
#define MOST 2 /* changes that have returned, and that B has not acknowledged */

mtype = { BACKUP, SHOW, ANSWER };

chan p2b = [5] of { mtype, byte };
chan b2p = [5] of { byte }; /* acknowledged changes */
chan answer[2] = [1] of { byte }; /* to the programs of R, of B */

byte returned, seen; /* names; seen: by programs of R and B */
byte kept;           /* the names that B has */
byte again;          /* a change whose BACKUP was not answered */
bool asked[2], table, dead, successor, lost; /* table: B's shows the directory; successor: B is the primary */

#ifdef LOSS
#define SEEN(v) ((v) & returned) /* what is under way may be seen, and then not be seen until it is sent again */
#else
#define SEEN(v) (on_b -> (v) : (v) & returned)
#endif
#ifdef EARLY_AFTER_SHOW
#define MAY_EARLY (n < MOST)
#else
#define MAY_EARLY (n < MOST && !ended)
#endif
#ifdef NO_EAGAIN
#define KNOWN true
#else
#define KNOWN (early == 0) /* else the answer is EAGAIN, and the question comes again: here it waits */
#endif
#ifdef SHOW_AT_ONCE
#define MAY_SHOW ended
#else
#define MAY_SHOW (ended && KNOWN)
#endif

active proctype primary() {
  byte names, changes, early, n, c;
  bool ended, sent; /* nothing more is answered early; SHOW is sent */
end:
  do
  :: atomic { changes < CHANGES && nfull(p2b) ->
     c = 1 << changes;
     changes++;
     names = names | c;
     p2b ! BACKUP(c);
     if
     :: MAY_EARLY -> n++; early = early | c; returned = returned | c
     :: else
     fi; c = 0 }
  :: atomic { again != 0 && nfull(p2b) -> p2b ! BACKUP(again); again = 0 }
  :: atomic { b2p ? c ->
     if
     :: early & c -> early = early & ~c; n--
     :: else -> returned = returned | c
     fi; c = 0 }
  :: !ended && (asked[0] || asked[1]) -> ended = true
  :: atomic { !sent && MAY_SHOW && nfull(p2b) -> sent = true; p2b ! SHOW(0) }
  :: atomic { asked[0] && sent && KNOWN -> asked[0] = false; answer[0] ! names }
  :: atomic { asked[1] && sent && KNOWN && nfull(p2b) -> asked[1] = false; p2b ! ANSWER(names) }
  :: dead = true; break
  od
}

active proctype backup() {
  byte v;
#ifdef SHOWN_FROM_START
  table = true;
#endif
end:
  do
  :: atomic { !successor && p2b ? [BACKUP] -> p2b ? BACKUP(v);
     if
     :: kept = kept | v; b2p ! v
#ifdef LOSS
     :: !lost -> lost = true; again = v
     :: !lost -> lost = true; again = v; kept = kept | v
#endif
     fi; v = 0 }
  :: atomic { !successor && p2b ? [SHOW] -> p2b ? SHOW(_);
     if
     :: table = true
#ifdef LOSS
     :: !lost -> lost = true /* its programs go on asking */
#endif
     fi }
  :: atomic { !successor && p2b ? [ANSWER] -> p2b ? ANSWER(v); answer[1] ! v; v = 0 }
  :: dead && !successor -> successor = true
  od
}

proctype reader(bool on_b) {
  byte v, before, had;
end:
  do
  :: atomic { before = returned; had = seen;
     if
     :: successor -> before = 0; goto look
     :: !successor && on_b && table -> goto look
     :: else -> asked[on_b] = true
     fi };
     if
     :: atomic { answer[on_b] ? v -> goto judge }
     :: successor -> before = 0
     fi;
look:
     v = kept;
judge:
     atomic {
       assert((v & (before | had)) == (before | had));
       seen = seen | SEEN(v);
       v = 0; before = 0; had = 0
     }
  od
}

init { atomic { run reader(false); run reader(true) } }
