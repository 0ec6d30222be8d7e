#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 22
# waits
# Bytes of output files over real daemons: written on one node, published by a client or by their close, held and read on another
# through its cache, removed while held, changed by name; with clients that die or lie, and a home that is killed.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/daemons.bash"

small_dataset
start_daemons 3 --cache 2M --deadline 2000
backing=$(ask 0 'backing 0')
[ -d "$backing/out" ] || fail "no backing directory: $backing"
backing_of() { printf '%s/out/%016x' "$backing" "$1"; }
# A client of node 1 that stays.
mkfifo "$work/to" "$work/from"
"$names" "$run/node-1.sock" <"$work/to" >"$work/from" &
client=$!
exec 8>"$work/to" 9<"$work/from"
reader() { # LINE: its answer
  echo "$1" >&8
  read -r -t 30 answer <&9 || fail "no answer to $1"
}
hold() { # ID SIZE: sets handle and version
  reader "hold $1"
  read -r ok handle size version <<<"$answer"
  equal "hold" "ok $2" "$ok $size"
}
same() { # ID: all that the last hold has is what its backing has
  reader "fetch $handle $size $work/copy"
  equal "fetch" ok "$answer"
  cmp "$work/copy" "$(backing_of "$1")" || fail "node 1 has other bytes than node 0"
}
# A program of node 0 opens the file, says so, writes, and ends without a word.
writes() { # ID BYTES
  exec 6>"$(backing_of "$1")"
  equal "who opens it says so" "ok" "$(ask 0 "look $1" | cut -d' ' -f1)"
  head -c "$2" /dev/urandom >&6
  exec 6>&-
}
sees() { [ "$(ask 1 "$1")" = "$2" ]; }
gone() { [ ! -e "$(backing_of "$1")" ]; }

id=$(ask 0 'create 1 checkpoint' | cut -d' ' -f2)
equal "there for others" "ok $id checkpoint 0" "$(ask 1 'lookup 1 checkpoint')"
say "published by its close alone"
writes "$id" 3000000
wait_until 20 sees 'lookup 1 checkpoint' "ok $id checkpoint 3000000"
hold "$id" 3000000
same "$id"
first=$handle
sleep 0.1 # in which the kernel's clock ticks
hold "$id" 3000000
same "$id"
before=$version
hold "$id" 3000000
equal "the same contents have the same handle" "$handle $before" "$handle $version"
[ "$before" != 0 ] || fail "no version"

say "changed, published and not published"
head -c 5 /dev/urandom | dd of="$(backing_of "$id")" bs=1 seek=1000000 conv=notrunc status=none
hold "$id" 3000000
[ "$version" != "$before" ] || fail "other contents of the same version"
[ "$handle" != "$first" ] || fail "other contents of the same handle"
same "$id"
head -c 700000 /dev/urandom >>"$(backing_of "$id")"
equal "what a client says is what the backing is" "ok $id checkpoint 3700000" "$(ask 0 "publish 1 $id 5")"
equal "of another node's file no client can say anything" EINVAL "$(ask 1 "publish 1 $id 5")"
hold "$id" 3700000
same "$id"
equal "by id" "ok $id checkpoint 3700000" "$(ask 2 "find 1 $id")"
equal "by id, where it is not" ENOENT "$(ask 2 "find 1 $((id + 5))" | cut -d' ' -f1)"
head -c 1 /dev/urandom >>"$(backing_of "$id")"
hold "$id" 3700001
truncate -s 1000 "$(backing_of "$id")"
reader "fetch $handle $size $work/copy"
equal "shorter than it was" "ok 1000" "$answer $(stat -c %s "$work/copy")"

say "changed by name, from another node"
equal "a file" "ok 100600 1234567 600" "$(ask 1 "setattr 1 $id f mode=600 mtime=1234567 size=600")"
equal "its backing" "600 1234567 600" "$(stat -c '%a %Y %s' "$(backing_of "$id")")"
equal "all see it" "ok $id checkpoint 600" "$(ask 2 'lookup 1 checkpoint')"
equal "no such file" ENOENT "$(ask 1 "setattr 1 $((id + 1)) f mode=600" | cut -d' ' -f1)"
dir=$(ask 2 'create 1 runs/' | cut -d' ' -f2)
equal "a directory" "ok 40700 99 0" "$(ask 1 "setattr 1 $dir d mode=700 mtime=99")"
equal "not as a file" ENOENT "$(ask 1 "setattr 1 $dir f mode=700" | cut -d' ' -f1)"
equal "not as a symlink" EINVAL "$(ask 1 "setattr 1 $dir l mode=700")"

say "removed while it is held"
id2=$(ask 0 'create 1 log' | cut -d' ' -f2)
writes "$id2" 3000000
wait_until 20 sees 'lookup 1 log' "ok $id2 log 3000000"
hold "$id2" 3000000
equal "removed" ok "$(ask 2 'remove 1 log')"
same "$id2"
reader "release $id2 $handle"
equal "released" ok "$answer"
wait_until 20 gone "$id2"
reader "release $id2 $handle"
equal "released twice" ENOENT "$answer"
reader "hold $id2"
equal "held after that" ENOENT "$answer"
id3=$(ask 0 'create 1 log2' | cut -d' ' -f2)
writes "$id3" 2
wait_until 20 sees 'lookup 1 log2' "ok $id3 log2 2"
equal "removed, and never held" ok "$(ask 1 'remove 1 log2')"
wait_until 20 gone "$id3"

say "a client that lies, and one that dies"
ask 1 'rude 2' >"$work/rude" &
rude=$!
ask 0 'rude 2' >/dev/null
wait "$rude"
grep -q 'asked=[0-9]\{4\}' "$work/rude" || fail "it asked for little: $(cat "$work/rude")"
for n in 0 1 2; do daemon_alive $n || fail "daemon $n is dead"; done
ids=()
for ((i = 0; i < 6; i++)); do ids+=("$(ask 0 "create 1 fifo$i" | cut -d' ' -f2)"); done
for i in "${ids[@]}"; do
  rm -f "$(backing_of "$i")"
  mkfifo "$(backing_of "$i")" # whoever opens it waits, for good
done
for i in "${ids[@]}"; do timeout 20 "$names" "$run/node-1.sock" <<<"append $i text" >>"$work/append" || fail "append: no answer"; done
equal "appended to a FIFO" 6 "$(grep -c '^ENXIO' "$work/append")"
equal "a forwarder" ok "$(ask 0 "forwarder ${ids[0]} $id")"
part=$(ask 1 'create 1 part' | cut -d' ' -f2)
for i in "$part" "${ids[1]}" $((part + 1)) $((1 << 62)) 9223372036854775809 1; do equal "no part" EINVAL "$(ask 1 "offer $id $i")"; done
equal "only asked" ok "$(ask 1 "offer $id 0")"
extended=$(timeout 20 "$names" "$run/node-1.sock" <<<"extend ${ids[1]} $part 0 100")
equal "a FIFO becomes longer" ENXIO "$extended"
sleep 1.5 # it looks at the forwarder
for ((i = 0; i < 6; i++)); do equal "removed" ok "$(ask 0 "remove 1 fifo$i")"; done
equal "removed" ok "$(ask 1 'remove 1 part')"
[[ $(ask 1 "forwarders $id 10000") == 'ENFILE 409'[56] ]] || fail "forwarders without end"
forwarders_again() { [[ $(ask 1 "forwarders $id 100") == 'ok 100' ]]; }
wait_until 30 forwarders_again
for n in 0 1 2; do daemon_alive $n || fail "daemon $n is dead"; done
hold "$id" 600
same "$id"
equal "removed" ok "$(ask 2 'remove 1 checkpoint')"
sleep 0.3
gone "$id" && fail "its bytes are gone, and it is held"
kill -KILL $client
wait_until 20 gone "$id"

say "home is killed"
exec 8>&- 9<&-
"$names" "$run/node-1.sock" <"$work/to" >"$work/from" &
exec 8>"$work/to" 9<"$work/from"
id4=$(ask 0 'create 1 last' | cut -d' ' -f2)
writes "$id4" 3000000
wait_until 20 sees 'lookup 1 last' "ok $id4 last 3000000"
hold "$id4" 3000000
kill -KILL "$(pid_of 0)"
reader "fetch $handle $size $work/copy"
equal "no bytes" EREMOTEIO "$answer"
reader "hold $id4"
equal "nobody to ask" EHOSTDOWN "$answer"
equal "its name is there" "ok $id4 last 3000000" "$(ask 2 'lookup 1 last')"
equal "another one works" ok "$(ask 2 'create 1 another' | cut -d' ' -f1)"
exec 8>&-

say "many closes while the daemon stands still"
backing=$(ask 2 'backing 0')
id5=$(ask 2 'create 1 many' | cut -d' ' -f2)
exec 6>"$(backing_of "$id5")"
equal "who opens it says so" "ok" "$(ask 2 "look $id5" | cut -d" " -f1)"
kill -STOP "$(pid_of 2)"
# shellcheck disable=SC2016
"$python" -c 'import os, sys
for i in range(1000): os.close(os.open("%s/x%d" % (sys.argv[1], i), os.O_WRONLY | os.O_CREAT))' "$backing/out"
echo bytes >&6
exec 6>&-
kill -CONT "$(pid_of 2)"
wait_until 30 sees 'lookup 1 many' "ok $id5 many 6"
stop_daemons
