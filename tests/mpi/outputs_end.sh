#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 40
# rest: other numbers of nodes; node 0's daemon
# What becomes of output files when the job ends: they are named, all of them in the report; --keep leaves each byte on
# its node under its name, also when COMMAND failed or fs-launch was killed.
. "$(dirname "$0")/../functions.sh"

random_files "$work/source" 20 3 1 100 5000
find "$work/source" -exec touch -d 2020-01-01 {} +
ds=$work/ds scripts=$work
pack "$work/source" "$ds" --partitions 2

# Each node writes into directories of all kinds, renames, removes and links; sums of the outputs go to $work/sums.
cat >"$scripts/node.sh" <<'END'
node=$1 nodes=$2
mkdir "o$node" "d00/deep$node" "d00/deep$node/er" "empty$node"
chmod 1751 "o$node" "empty$node"
for i in 1 2 3; do
  head -c $((i * 300000)) /dev/urandom >"o$node/f$i"
  echo "$i$node" >"d00/deep$node/er/g$i"
done
ln -s f1 "o$node/latest"
echo "tmp $node" >"t$node" && mv "t$node" "o$node/final"
mv "d00/deep$node/er" "d00/deep$node/renamed"
echo old >"o$node/replaced" && echo "new $node" >"o$node/new" && mv "o$node/new" "o$node/replaced"
rm "o$node/f2"
[ "$node" = 0 ] || mv "o$((node - 1))/f3" "o$node/from"
END
cat >"$scripts/job.sh" <<'END'
nodes=$1 top=$2 status=$3
cd "$4" || exit
for node in $(seq 0 $((nodes - 1))); do FANSTORE_NODE=$node bash "${0%/*}/node.sh" "$node" "$nodes" || exit 99; done
find . -type f -newer "${0%/*}/start" -exec md5sum {} + | sort >"$top/sums"
find . -newer "${0%/*}/start" ! -type f -printf '%P %y %m %T@ %l\n' | grep -v '^\(d00\)\? d' | sort >"$top/others"
[ "$status" != wait ] || { touch "$top/written"; sleep 100; }
exit "$status"
END
# Two nodes write, and the first one's daemon gets a signal.
cat >"$scripts/first.sh" <<'EOF'
cd "$1" || exit
for i in 1 2; do FANSTORE_NODE=$i sh -c 'echo "of node $1" >"of-$1"' - "$i" || exit; done
"$kill_daemon" 0 "$1" "$2"
EOF
# A node writes, and its daemon dies; what $3 says is copied before; with $4 it is said then, and the job goes on until $4.go.
cat >"$scripts/gone.sh" <<'EOF'
cd "$1" && mkdir sub || exit
FANSTORE_NODE=1 bash -c 'for i in $(seq "$1"); do echo "$i" >"sub/of-$i"; done; echo x >sub/removed; rm sub/removed' - "$2" || exit
FANSTORE_NODE=0 sh -c 'echo mine >own' || exit
[ -z "${3:-}" ] || until [ "$(find "$3/sub" -name "of-*" 2>/dev/null | wc -l)" = "$2" ]; do sleep 0.1; done
"$kill_daemon" 1 "$1"
[ -z "${4:-}" ] || { touch "$4"; for i in $(seq 600); do [ ! -e "$4.go" ] || break; sleep 0.1; done; }
EOF
# Two nodes write into one file, whose home dies.
cat >"$scripts/shared.sh" <<'EOF'
for k in 1 2; do FANSTORE_NODE=$k sh -c 'echo "$1" | dd of="$2/shared" bs=1 seek=$(($1 * 100)) conv=notrunc status=none' - $k "$1"; done
"$kill_daemon" 1 "$1" || exit
for i in $(seq 100); do
  error=$(FANSTORE_NODE=0 cat "$1/shared" 2>&1 >/dev/null) || { echo "$error"; exit 0; }
  sleep 0.1
done
exit 99
EOF
# All nodes write; mpirun, the parent of the daemons, is killed.
cat >"$scripts/mpirun.sh" <<'EOF'
cd "$1" || exit
[ "$2" = none ] || { mkdir sub && ln -s of-0 link || exit; }
[ "$2" = none ] || for k in $(seq 0 $(($2 - 1))); do FANSTORE_NODE=$k sh -c 'echo "of node $1" >"of-$1" && echo "$1" >"sub/$1"' - "$k" || exit; done
[ -z "$3" ] || for i in $(seq 300); do [ -e "$3/sub/$(($2 - 1))" ] && break; sleep 0.1; done
for p in /proc/[0-9]*; do
  { read -r comm <"$p/comm"; } 2>/dev/null && [ "$comm" = fanstored ] && grep -qzxF "$1" "$p/cmdline" && kill -9 "$(sed -n 's/^PPid:[^0-9]*//p' "$p/status")" && break
done || exit 99
sleep "$4"
EOF
touch -d 2021-01-01 "$scripts/start"
job() { # NODES STATUS [OPTION...]
  local nodes=$1 status=$2
  shift 2
  launch --dataset "$ds" --mount "$mnt" --emulate "$nodes" "$@" -- bash "$scripts/job.sh" "$nodes" "$work" "$status" "$mnt"
}
kept() { # compares what was kept with what was written; removes it
  (cd "$1" && find . -type f -exec md5sum {} + | sort) | diff "$work/sums" - || fail "$2: other bytes"
  (cd "$1" && find . -mindepth 1 ! -type f -printf '%P %y %m %T@ %l\n' | grep -v '^d00 d ' | sort) | diff "$work/others" - ||
    fail "$2: other directories or symlinks"
  rm -rf "$work/local/fanstore-outputs"
}
gone() { ! ls -d "$TMPDIR"/fanstore-*/job-* "$work"/local/fanstore*/outputs-* >/dev/null 2>&1; }

ends_well() {
  for n in $(half 2 "1 4"); do
    expect_status 0 job "$n" 0 --discard --report "$work/r.json"
    [ -s "$work/sums" ] || fail "nothing was written"
    equal "files" "$(wc -l <"$work/sums")" "$(json "$work/r.json" 'r["outputs"]["files"]')"
    equal "names" "$(sed 's|.*  \./||' "$work/sums" | sort | paste -sd,)" \
      "$(json "$work/r.json" '",".join(sorted(x["name"] for x in r["outputs"]["names"]))' | LC_ALL=C tr , '\n' | sort | paste -sd,)"
    equal "bytes" "$(json "$work/r.json" 'r["outputs"]["bytes"]')" \
      "$(json "$work/r.json" 'sum(x["size"] for x in r["outputs"]["names"])')"
    grep -q "^fs-launch: $(wc -l <"$work/sums") outputs (.*) are lost.*: .*, .*" "$work/err" || fail "$(cat "$work/err")"
    [ ! -e "$work/local/fanstore-outputs" ] || fail "kept without being asked to"
    no_leftovers
    for status in 0 3; do
      expect_status $status job "$n" $status --keep
      grep -q "outputs (.*) kept in $work/local/fanstore-outputs/job-" "$work/err" || fail "$(cat "$work/err")"
      kept "$work"/local/fanstore-outputs/job-* "$n nodes, status $status"
      no_leftovers
    done
    echo "ok - $n nodes: outputs are named, and kept by --keep"
  done

  expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 2 --keep -- true
  ! grep -q output "$work/err" || fail "there are none: $(cat "$work/err")"
  [ ! -e "$work/local/fanstore-outputs" ] || fail "an empty directory is kept"
  echo "ok - without outputs nothing is said or made"

  # Nor are directories and symlinks, where there is nothing else, lost without a word.
  mkdir "$work/durable"
  made() { # WHAT-IS-MADE WHAT-IS-SAID [OPTION...]
    local how=$1 said=$2
    shift 2
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 4 --report "$work/r.json" "$@" -- bash -c "cd \"\$1\" && $how" - "$mnt"
    grep -q "^fs-launch: $said" "$work/err" || fail "$how: $(cat "$work/err")"
  }
  made 'mkdir a b a/c && ln -s a d && ln -s b a/l && rmdir b' '2 directories and 2 symlinks are lost (keep with --keep)$' --discard
  equal "counted" "0 2 2" "$(json "$work/r.json" 'str(r["outputs"]["files"]) + " %(directories)d %(symlinks)d" % r["outputs"]')"
  made 'mkdir a' '1 directory is lost (keep with --keep)$' --discard
  made 'ln -s a b' "1 symlink kept in $work/local/fanstore-outputs/job-.* on each node$" --keep
  made 'mkdir a b' "2 directories made, staged out to $work/durable$" --stage-out "$work/durable"
  made 'mkdir -p a/b && touch a/b/c' '1 output (0 B) is lost (keep with --keep): a/b/c$' --discard
  rm -rf "$work/local/fanstore-outputs"
  echo "ok - directories and symlinks without files are told"

  rm -f "$work/written"
  "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 2 --keep -- \
    bash "$scripts/job.sh" 2 "$work" wait "$mnt" >"$work/out" 2>&1 &
  wait_until 60 test -e "$work/written"
  kill -9 $!
  wait $! 2>/dev/null || true
  wait_until 40 gone
  kept "$work"/local/fanstore-outputs/job-* "fs-launch was killed"
  echo "ok - kept also when fs-launch is killed"

  # A directory that cannot be made: said, and an error of what was asked for.
  touch "$work/local/fanstore-outputs"
  expect_status 125 job 2 0 --keep
  grep -q 'could not be kept: ' "$work/err" || fail "not said: $(cat "$work/err")"
  grep -q "what is not saved stays in $work/local, until fs-launch clean --outputs" "$work/err" || fail "not said: $(cat "$work/err")"
  rm "$work/local/fanstore-outputs"
  mkdir "$work/to"
  expect_status 0 "$bin/fs-launch" clean --local-dir "$work/local" --outputs --to "$work/to"
  equal "bytes" "$(cut -c 1-32 "$work/sums" | sort)" "$(find "$work/to" -type f -exec md5sum {} + | cut -c 1-32 | sort)"
  rm -rf "$work/to"
  echo "ok - what cannot be kept is told, and stays until clean --outputs"

  # Files that several nodes have written are put together where their home is.
  for n in $(half 2 4); do
    mkdir "$work/plain"
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate "$n" --keep -- \
      "$python" "$(dirname "$0")/outputs_shared.py" "$mnt" "$work/plain" "$n"
    mkdir "$work/kept" && cp -a "$work"/local/fanstore-outputs/job-*/. "$work/kept"
    diff -r "$work/plain" "$work/kept" || fail "$n nodes: other bytes"
    [ "$(stat -c %b "$work"/local/fanstore-outputs/job-*/sparse)" -lt 30000 ] || fail "$n nodes: the hole is filled"
    rm -rf "$work/plain" "$work/kept" "$work/local/fanstore-outputs"
  done
  echo "ok - files of several nodes are kept whole"
}

# Rank 0 passes on what fs-launch says. When its daemon is dead, or stands still, the others are told all the same.
first_is_gone() {
  first() { # SIGNAL OPTION...
    local signal=$1
    shift
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 3 "$@" -- \
      env FANSTORE_NODE=0 bash "$scripts/first.sh" "$mnt" "$signal"
    if grep 'node [12] .*\(does not tell\|did not report\|no report\)' "$work/err"; then fail "$*: $(cat "$work/err")"; fi
    rm -rf "$work"/local/*/outputs-* "$TMPDIR"/fanstore-*
  }
  first -KILL --discard --deadline 3000
  grep -qE '2 outputs .* are lost .*: (of-1, of-2|of-2, of-1)$' "$work/err" || fail "not named: $(cat "$work/err")"
  for signal in -KILL -STOP; do
    first $signal --keep
    equal "$signal: kept" "of node 1 of node 2" "$(cat "$work"/local/fanstore-outputs/job-*/of-* | xargs)"
    rm -rf "$work/local/fanstore-outputs"
  done
  first -KILL --output-replicas 1 --keep
  equal "with replicas" "of node 1 of node 2" "$(cat "$work"/local/fanstore-outputs/job-*/of-* | xargs)"
  rm -rf "$work/local/fanstore-outputs"
  echo "ok - outputs are told and kept also when node 0's daemon is gone"
}

# What was on a node that is gone is named by the others; --keep and --stage-out have not done what they were asked for then.
node_is_gone() {
  with_node() { # NODES FILES STATUS [OPTION...]
    local nodes=$1 files=$2 status=$3
    shift 3
    expect_status "$status" launch --dataset "$ds" --mount "$mnt" --emulate "$nodes" "$@" -- \
      env FANSTORE_NODE=0 bash "$scripts/gone.sh" "$mnt" "$files"
    grep 'lost with their nodes' "$work/err" >"$work/lost" || [ "$files" = 0 ] || fail "not told: $(cat "$work/err")"
    rm -rf "$work"/local/*/outputs-* "$work/local/fanstore-outputs" "$TMPDIR"/fanstore-*
  }
  for n in $(half 2 4); do
    with_node "$n" 3 0 --discard --report "$work/r.json"
    equal "$n nodes" "fs-launch: 3 outputs are lost with their nodes" "$(sed 's/:[^:]*$//' "$work/lost")"
    equal "report" "3 sub/of-1,sub/of-2,sub/of-3" \
      "$(json "$work/r.json" 'str(r["outputs"]["gone"]) + " " + ",".join(sorted(r["outputs"]["gone_names"]))')"
    with_node "$n" 30 125 --keep
    grep -q ': 30 outputs .* sub/of-[0-9]* and 20 more$' "$work/lost" || fail "$n nodes: $(cat "$work/err")"
  done
  with_node 2 0 0 --keep
  [ ! -s "$work/lost" ] || fail "nothing was there: $(cat "$work/lost")"
  mkdir "$work/staged" && touch "$work/staged/sub" # no directory: nothing can be copied
  with_node 2 3 125 --stage-out "$work/staged"
  grep -q "what $work/staged has of them was copied before" "$work/err" || fail "not said: $(cat "$work/err")"
  rm -rf "$work/staged"
  echo "ok - what is lost with a node is named"
}
# But what was copied before is whole, and so is the job. Of a file that several nodes wrote all is needed.
copied_node_is_gone() {
  mkdir "$work/staged"
  for n in $(half 2 4); do
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate "$n" --stage-out "$work/staged" -- \
      env FANSTORE_NODE=0 timeout 60 bash "$scripts/gone.sh" "$mnt" 30 "$work/staged"
    grep -q " written, 31 staged out to $work/staged\$" "$work/err" || fail "$n nodes: $(cat "$work/err")"
    if grep lost "$work/err"; then fail "$n nodes: all was copied"; fi
    rm -rf "$work"/local/*/outputs-* "$TMPDIR"/fanstore-* "$work"/staged/*
  done
  rm -rf "$work/staged"
  expect_status 125 launch --dataset "$ds" --mount "$mnt" --emulate 3 --deadline 300 --keep -- \
    env FANSTORE_NODE=0 bash "$scripts/shared.sh" "$mnt" >"$work/out"
  grep -q 'Input/output error' "$work/out" || fail "a file of several writers without its home: $(cat "$work/out" "$work/err")"
  grep -q '1 output is lost with its node: shared$' "$work/err" || fail "not told: $(cat "$work/err")"
  rm -rf "$work"/local/*/outputs-* "$work/local/fanstore-outputs" "$TMPDIR"/fanstore-*
  echo "ok - what was copied before is whole, and a file of several writers is lost with its home"
}

# To remove many outputs may take longer than a daemon's silence is taken for its end.
slow_removal() {
  cc -shared -fPIC -o "$work/slow.so" "$(dirname "$0")/slow_remove.c" -ldl
  FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/slow.so" expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 2 --discard -- \
    sh -c 'cd "$1" && for i in $(seq 10); do : >"f$i"; done' - "$mnt"
  if grep 'did not report\|no report' "$work/err"; then fail "$(cat "$work/err")"; fi
  [ -z "$(ls -d "$work"/local/*/outputs-* 2>/dev/null)" ] || fail "left: $(ls -d "$work"/local/*/outputs-*)"
  echo "ok - outputs that take long to remove"
}

# What a killed daemon leaves goes at the end of the job, or stays where it should have been kept, until fs-launch clean.
left_by_daemons() {
  backing_files() { find "$work/local" -maxdepth 2 -name 'outputs-*' | sed 's/.*-//' | sort | xargs; }
  clean() { "$bin/fs-launch" clean --local-dir "$work/local" "$@" >"$work/clean" 2>&1 || fail "clean: $(cat "$work/clean")"; }
  clean
  for n in $(half 2 4); do
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate "$n" --discard -- env FANSTORE_NODE=0 bash "$scripts/gone.sh" "$mnt" 3
    equal "$n nodes: left" "" "$(backing_files)"
    expect_status 125 launch --dataset "$ds" --mount "$mnt" --emulate "$n" --keep -- env FANSTORE_NODE=0 bash "$scripts/gone.sh" "$mnt" 3
    equal "$n nodes: left with --keep" "1" "$(backing_files)"
    where=$(sed -n 's/.*what is left of them .* is in \(.*\), until fs-launch clean --outputs$/\1/p' "$work/err")
    equal "$n nodes: bytes" "1 2 3" "$(cat "$where"/* | sort | xargs)"
    mkdir -p "$work/other/out" && touch "$work/other/out/mine" && ln -s "$work/other" "$work/local/fanstore-node0/outputs-job-x-0"
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate "$n" -- true
    clean
    grep -q "^fs-launch: ${where%/out}: 3 outputs (6 B) of a job that is over: fs-launch clean --outputs removes" "$work/clean" || fail "$(cat "$work/clean")"
    equal "$n nodes: left after the next job and clean, beside the symlink" "0 1" "$(backing_files)"
    mkdir "$work/to"
    clean --outputs --to "$work/to"
    grep -q "^fs-launch: removed ${where%/out}, with 3 outputs (6 B), which are in $work/to/job-" "$work/clean" || fail "$(cat "$work/clean")"
    equal "$n nodes: names" "1 2 3 mine" "$(cd "$work"/to/job-* && cat sub/of-1 sub/of-2 sub/of-3 own | xargs)"
    equal "$n nodes: nothing else" 4 "$(find "$work/to" -type f | wc -l)"
    rm -r "$work/to"
    [ -e "$work/other/out/mine" ] || fail "a symlink was followed"
    rm "$work/local/fanstore-node0/outputs-job-x-0"
    equal "$n nodes: left after clean" "" "$(backing_files)"
    rm -rf "$work/local/fanstore-outputs"
  done
  rm -f "$work/now" "$work/now.go"
  launch --dataset "$ds" --mount "$mnt" --emulate 2 --keep -- env FANSTORE_NODE=0 bash "$scripts/gone.sh" "$mnt" 3 '' "$work/now" >"$work/out" 2>&1 &
  wait_until 60 test -e "$work/now"
  clean
  equal "of a job that runs" "0 1" "$(backing_files)"
  touch "$work/now.go"
  wait $! || true
  clean --outputs
  equal "when it is over" "" "$(backing_files)"
  echo "ok - what killed daemons leave in the local directory"
}

# When mpirun dies, what there is is kept and copied all the same, and told.
mpirun_is_gone() { # NODES
  local n=$1 after
  for after in 0 3; do
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate "$n" --keep --report "$work/r.json" -- \
      bash "$scripts/mpirun.sh" "$mnt" "$n" '' "$after"
    grep -q "$((2 * n)) outputs (.*) kept in $work/local/fanstore-outputs/job-.* on each node: .*of-1" "$work/err" || fail "$(cat "$work/err")"
    if grep 'lost\|no report' "$work/err"; then fail "$n nodes: $(cat "$work/err")"; fi
    equal "named" $((2 * n)) "$(json "$work/r.json" 'len(r["outputs"]["names"])')"
    equal "kept" "$n of-0" "$(cat "$work"/local/fanstore-outputs/job-*/of-* | grep -c 'of node') $(readlink "$work"/local/fanstore-outputs/job-*/link)"
    no_leftovers
    rm -rf "$work/local/fanstore-outputs"
    mkdir "$work/staged"
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate "$n" --stage-out "$work/staged" -- \
      bash "$scripts/mpirun.sh" "$mnt" "$n" '' "$after"
    grep -q "$((2 * n)) outputs (.*) written, $((2 * n)) staged out to $work/staged\$" "$work/err" || fail "$(cat "$work/err")"
    equal "staged out" "$n of-0" "$(cat "$work"/staged/of-* | grep -c 'of node') $(readlink "$work/staged/link")"
    [ ! -e "$work/local/fanstore-outputs" ] || fail "kept as well"
    no_leftovers
    rm -rf "$work/staged"
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate "$n" --discard --report "$work/r.json" -- \
      bash "$scripts/mpirun.sh" "$mnt" "$n" '' "$after"
    grep -q "$((2 * n)) outputs (.*) are lost (keep with --keep): .*of-1" "$work/err" || fail "$(cat "$work/err")"
    ! grep 'does not tell\|no report' "$work/err" || fail "$n nodes: $(cat "$work/err")"
    equal "named" $((2 * n)) "$(json "$work/r.json" 'len(r["outputs"]["names"])')"
    no_leftovers
  done
  echo "ok - $n nodes: the death of mpirun loses no outputs that are kept or staged out"
}
nothing_is_lost() {
  expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 2 -- bash "$scripts/mpirun.sh" "$mnt" none '' 0
  ! grep 'lost\|no report' "$work/err" || fail "nothing was made: $(cat "$work/err")"
  no_leftovers
  expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 2 --read-only -- bash "$scripts/mpirun.sh" "$mnt" none '' 0
  ! grep 'lost' "$work/err" || fail "--read-only: $(cat "$work/err")"
  no_leftovers
  echo "ok - the death of mpirun is told of where there are outputs only"
}

# Somebody removes a node's outputs from its local directory: they are EIO, not missing, and told at the end.
cat >"$scripts/vanished.sh" <<'EOF'
mkdir "$1/out" && for i in 1 2 3; do echo "$i" >"$1/out/$i" || exit; done
env -u LD_PRELOAD FANSTORE_ENV_AS_IS=1 bash -c 'for f in "$1"/fanstore-node0/outputs-*/out/*; do [ "$(cat "$f")" = 3 ] || rm "$f"; done' - "$2"
for node in 0 1; do for i in 1 2 3; do FANSTORE_NODE=$node cat "$1/out/$i"; done 2>&1; done
ls "$1/out" | wc -l
EOF
vanished() {
  local how status
  mkdir "$work/staged"
  for how in --keep --stage-out --discard; do
    status=125
    [ "$how" != --discard ] || status=0
    set -- "$how"
    [ "$how" != --stage-out ] || set -- "$how" "$work/staged"
    expect_status $status launch --dataset "$ds" --mount "$mnt" --emulate 2 "$@" -- bash "$scripts/vanished.sh" "$mnt" "$work/local"
    equal "$how: EIO" 4 "$(grep -c 'Input/output error' "$work/out")"
    equal "$how: others" "3 3 3" "$(grep -x 3 "$work/out" | xargs)"
    case $how in
      --keep) grep -q '^fs-launch: 2 of them could not be kept: No such file' "$work/err" ;;
      --stage-out) grep -q '^fs-launch: 3 outputs (2 B) written, 1 staged out' "$work/err" && grep -q '2 could not be staged out' "$work/err" ;;
      *) grep -q '3 outputs (2 B) are lost (keep with --keep)' "$work/err" ;;
    esac || fail "$how: $(cat "$work/err")"
    no_leftovers
  done
  echo "ok - outputs whose bytes somebody removed"
}

ends() { ends_well; slow_removal; }
without_first() { first_is_gone; nothing_is_lost; }
without_mpirun_2() { mpirun_is_gone 2; vanished; }
without_mpirun_4() { mpirun_is_gone 4; copied_node_is_gone; }
# shellcheck disable=SC2046 # words
side_by_side eval ends $(half without_mpirun_2 'without_mpirun_4 without_first') node_is_gone left_by_daemons
