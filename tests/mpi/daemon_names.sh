#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 21
# waits
# Names of output files over real daemons: made on one node, seen on the others; renamed, removed, listed; none is lost when a
# daemon is killed, at rest or while names are made.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/daemons.bash"

small_dataset
ids_of() { ask "$1" "list $2" | tr ' ' '\n' | grep -c '^f[0-9]'; }

start_daemons 3 --deadline 2000
id=$(ask 0 'create 1 log' | cut -d' ' -f2)
[ "$id" -gt 0 ] || fail "no id: $id"
equal "another node, before it is published" "ok $id log 0" "$(ask 1 'lookup 1 log')"
equal "its own node" "ok $id log 0" "$(ask 0 'lookup 1 log')"
equal "the name is taken" "EEXIST $id log 0" "$(ask 2 'create 1 log')"
equal "published" "ok $id log 123" "$(ask 0 "publish 1 $id 123")"
equal "seen there" "ok $id log 123" "$(ask 1 'lookup 1 log')"
equal "renamed" "ok" "$(ask 2 'rename 1 log 1 log.1' | cut -d' ' -f1)"
equal "the old name" ENOENT "$(ask 0 'lookup 1 log')"
equal "the new one" "ok $id log.1 123" "$(ask 0 'lookup 1 log.1')"
dir=$(ask 1 'create 1 out/' | cut -d' ' -f2)
equal "moved" "ok" "$(ask 0 "rename 1 log.1 $dir x" | cut -d' ' -f1)"
equal "there" "ok $id x 123" "$(ask 2 "lookup $dir x")"
equal "published there, by the old directory" EREMCHG "$(ask 0 "publish 1 $id 5" | cut -d' ' -f1)"
equal "not empty" ENOTEMPTY "$(ask 2 'rmdir 1 out')"
equal "removed" ok "$(ask 1 "remove $dir x")"
equal "the directory, too" ok "$(ask 2 'rmdir 1 out')"
equal "gone" ENOENT "$(ask 0 'lookup 1 out')"
equal "nothing can be made in it" ENOENT "$(ask 0 "create $dir y" | cut -d' ' -f1)"
equal "a name of the dataset" EROFS "$(ask 0 "create 1 $(find "$work/source" -mindepth 1 -maxdepth 1 -printf '%f\n' -quit)")"
equal "no such directory" EINVAL "$(ask 0 'create 12345 x')"

say "what only daemons say to each other"
equal "refused of a client" all "$(ask 0 "refused 1")"

say "many at once, from all nodes"
for n in 0 1 2; do ask $n "many 1 f$n. 3000 8" >"$work/many-$n" & done
wait %2 %3 %4
for n in 0 1 2; do
  say "$(cat "$work/many-$n")"
  grep -q 'made=3000 errors=0' "$work/many-$n" || fail "node $n: $(cat "$work/many-$n")"
done
for n in 0 1 2; do equal "names seen by node $n" 9000 "$(ids_of $n 1)"; done

say "a daemon is killed while names are made"
for n in 0 1; do ask $n "many 1 fg$n. 20000 8" >"$work/many-$n" & done
sleep 0.3
kill -KILL "$(pid_of 2)"
wait %2 %3
for n in 0 1; do
  say "$(cat "$work/many-$n")"
  grep -q 'made=20000 errors=0' "$work/many-$n" || fail "node $n: $(cat "$work/many-$n")"
done
for n in 0 1; do equal "f-names seen by node $n" 9000 "$(ask $n 'list 1' | tr ' ' '\n' | grep -c '^f[0-9]')"; done
for n in 0 1; do equal "fg-names seen by node $n" 40000 "$(ask $n 'list 1' | tr ' ' '\n' | grep -c '^fg')"; done

say "and one more"
sleep 8 # in which the names have two homes again
kill -KILL "$(pid_of 0)"
equal "names seen by the last" 49000 "$(ask 1 'list 1' | tr ' ' '\n' | grep -c '^fg*[0-9]')"
equal "it can make more" ok "$(ask 1 'create 1 last' | cut -d' ' -f1)"
stop_daemons
