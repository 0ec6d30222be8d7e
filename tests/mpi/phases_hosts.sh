#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# slow
# bench/mdtest.sh and bench/ior.sh on two hosts, each a network namespace: FanStore's nodes are the hosts, and so are those
# of a plain directory that both see.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
netns_up 2
mkdir "$work/scratch"
cd "$work"
bench() { # SCRIPT OPTION...: on h1; /dev/shm is each host's own
  netns_on h1 env PATH="$PATH" FS_BUILD="$build" "$root/bench/$1.sh" --quick --size 4 --hosts h1,h2 "${@:2}" >out 2>err
}

# A program that tells where its ranks run.
cat >mdtest <<END
#!/bin/sh
for last; do :; done
echo "\$last \$OMPI_COMM_WORLD_RANK \$(hostname)" >>"$work/where"
echo "   File stat  1000.0"
END
chmod +x mdtest
PATH=$work:$PATH bench mdtest --plain-dir "$work/scratch" --plain-dir /dev/shm --local-dir "$net_local" \
  --only "one directory" || fail "$(cat out err)"
ranks() { # PATTERN: of a side's directory
  grep -E "^$1" where | cut -d ' ' -f 2- | sort | paste -sd,
}
apart='0 h1,1 h1,2 h2,3 h2' together='0 h1,1 h1,2 h1,3 h1'
equal "in the shared directory" "$apart" "$(ranks '[^ ]*/scratch/fsb[^ ]*/run/')"
equal "in /dev/shm" "$together" "$(ranks /dev/shm/)"
equal "on one node and on two" "$(tr , '\n' <<<"$together,$apart" | sort | paste -sd,)" "$(ranks '[^ ]*/nowhere/')"
grep -q '^tmpfs: /dev/shm, all processes on this host: ' out || fail "$(cat out)"
grep -q '^nodes: of h1 h2, ' out || fail "$(cat out)"
echo "ok - ranks are on the hosts, neighbours on one"

declare -A only=([mdtest]='4 KiB' [ior]='random 4 KiB')
for script in mdtest ior; do
  bench "$script" --own --plain-dir "$work/scratch" --local-dir "$net_local" --nodes 2 --only "${only[$script]}" ||
    fail "$(cat out err)"
  grep -E '^\| dataset \|.*: .*( \| [0-9.]+){2} \|$' out || fail "$(cat out)"
  grep -E '^\| outputs \|.*: .*( \| [0-9.]+){2} \|$' out || fail "$(cat out)"
done
equal "left" "" "$(ls scratch; find "$net_root"/h?/local "$net_root"/h?/tmp -mindepth 1 -name 'fsb.*')"
echo "ok - rows of the dataset and of outputs, on two hosts"

refused() { # PATTERN OPTION...
  local rc=0
  bench mdtest --own "${@:2}" || rc=$?
  equal "exit status" 2 "$rc"
  one_line err "^mdtest.sh: $1"
}
refused '--plain-dir /dev/shm: the first one ' --plain-dir /dev/shm --local-dir "$net_local"
mkdir "$net_root/h1/local/here"
refused "--local-dir .*: no directory .*, on some host" --plain-dir "$work/scratch" --local-dir "$net_local/here"
equal "left" "" "$(ls scratch)"
echo "ok - directories that are not on all hosts"
