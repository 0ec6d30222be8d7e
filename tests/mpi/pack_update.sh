#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack --update over emulated nodes: the same bytes as one process; kept partitions are links on shared storage
# and on the nodes, so the next job stages nothing; an update that changes nothing, or is killed, leaves all as it is;
# datasets whose partitions are on the nodes only.
# rest: 1 and 4 nodes
. "$(dirname "$0")/../functions.sh"
cd "$work"
"$python" - <<'PY'
import os, random
r = random.Random(7)
os.makedirs("first/d/e")
for i in range(100):
    with open("first/d/%03d" % i, "wb") as f: f.write(r.randbytes(3000) + b"text " * 20 * i)
for i in range(4):
    with open("first/d/e/large%d" % i, "wb") as f: f.write(r.randbytes(1500000 + i))
os.link("first/d/010", "first/d/linked")
os.symlink("010", "first/d/symlink")
PY

update() { # WHAT SOURCE [OPTION...]: of "one" by one process and of "ds" by $nodes nodes
  local what=$1 source=$2
  shift 2
  "$bin/fs-prepare" pack --update "$@" "$source" one >one.out 2>one.err || fail "$what: $(cat one.err)"
  "$bin/fs-prepare" pack --update --local-dir "$work/local" --emulate "$nodes" "$@" "$source" ds >out 2>err ||
    fail "$what: $(cat err)"
  diff -r one ds || fail "$what: other bytes than with one process"
  grep -qxF -- "$(grep kept one.out)" out || fail "$what: $(cat out)"
  "$bin/fs-prepare" verify ds >verify.out || fail "$what: $(cat verify.out)"
}
read_all() { # WHAT SOURCE: a job finds all of it
  launch --emulate "$nodes" --local-dir "$work/local" --dataset ds --mount "$mnt" -- diff -r "$2" "$mnt" >out 2>err ||
    fail "$1: $(cat out err)"
}
staged() { grep -oE '[0-9.]+ [KMi]*B staged' err; }
all_names() { find . \( -path './ds*' -o -path './local*' \) ! -name local ! -name 'fanstore*' -printf '%p %i %s %T@\n' -o -path './source.fs*' -printf '%p %i\n' | sort; }

begun() { [ -n "$(find local -path '*/.pack-*/part-*' 2>/dev/null)" ]; }
update_killed() { # SOURCE [DATASET]: an update of which a rank is killed; the dataset and the nodes' copies stay
  local status=0
  all_names | grep -v '/.pack-' >names
  FANSTORE_TEST_CHECKPOINT_MS=600000 \
    "$bin/fs-prepare" pack --update --local-dir "$work/local" --emulate "$nodes" --codec zstd:22 --jobs 1 "$@" >out 2>err &
  packing=$!
  wait_until 60 begun
  kill -9 "$(pgrep -f "^$bin/fanstore-pack .*--local-dir $work/local " | tail -n 1)"
  wait "$packing" || status=$?
  equal "status after a kill" 1 "$status"
  one_line err 'was killed by signal 9 while it packed; pack again to go on, or to remove what it has left$'
  all_names | grep -v '/.pack-' | diff names - || fail "a killed update has changed something"
}
ids() { find local -maxdepth 2 -name '[0-9a-f]*' -printf '%f\n' | grep -xE '[0-9a-f]{32}' | sort -u; }
# Of a dataset whose partitions are on the nodes only. DATASET is left out: its name is SOURCE's.
on_nodes() { # [OPTION...]
  "$bin/fs-prepare" pack --local-dir local --emulate "$nodes" "$@" source >out 2>err || fail "$*: $(cat err)"
  grep -q '^  the partitions are on these nodes only: ' out || fail "$(cat out)"
}
read_nodes() { # WHAT
  launch --emulate "$nodes" --dataset source.fs --mount "$mnt" -- diff -r --no-dereference source "$mnt" >out 2>err ||
    fail "$1: $(cat out err)"
}
both() { # WHAT [OPTION...]: an update by one process, and by the nodes
  "$bin/fs-prepare" pack --update "${@:2}" source one >one.out 2>&1 || fail "$1: $(cat one.out)"
  on_nodes --update "${@:2}"
  for f in index manifest; do cmp one/$f source.fs/$f || fail "$1: other bytes than with one process"; done
  grep -qxF -- "$(grep kept one.out)" out || fail "$1: $(cat out)"
  read_nodes "$1"
}

for nodes in $(half 2 "1 4"); do
  rm -rf source one ds local
  cp -a first source
  "$bin/fs-prepare" pack --mount "$mnt" source one >out
  "$bin/fs-prepare" pack --mount "$mnt" --local-dir local --emulate "$nodes" source ds >out
  old=$(ids)
  rm source/d/0[2-3]* source/d/e/large1
  mv source/d/005 source/d/renamed
  printf 'new content\n' >source/d/006
  cp source/d/e/large0 source/d/a-copy
  cp source/d/050 source/d/b-copy
  head -c 900000 /dev/urandom >source/d/new
  cp source/d/new source/d/new-too
  ln source/d/011 source/d/000-link
  cp -al ds before
  update "$nodes nodes" source
  grep -q '^  kept .* removed 22 files$' out || fail "$(cat out)"
  grep -qE "^  $nodes node.*( each)? of what is new in " out || fail "$(cat out)"
  for f in before/part-*; do [ "$f" -ef "ds/${f##*/}" ] || fail "$f was copied"; done
  read_all "$nodes nodes" source
  equal "$nodes nodes" '0 B staged' "$(staged)"
  for f in local/fanstore*/"$old"/part-?????; do
    [ "$(stat -c %h "$f")" -ge 2 ] || fail "$f: not linked into the new dataset"
  done
  rm -rf before
  echo "ok - $nodes nodes: what is added, changed, removed or equal; 0 B staged, $(grep -oE '[0-9.]+ .iB reused' err)"

  all_names >names
  update "nothing new" source
  all_names | diff names - || fail "an update without changes has changed something"
  tail -n 1 out | grep -q 'MB/s$' || fail "$(cat out)"
  cp -p source/d/new last && head -c 900000 /dev/urandom >source/d/new && touch -r last source/d/new
  update "a file of the same size and time" source
  all_names | diff names - || fail "an update without changes has changed something"
  touch source/d/e/*
  update "--checksum" source --checksum
  grep -q ', packed 878.9 KiB, ' out || fail "$(cat out)"
  read_all "--checksum" source
  equal "$nodes nodes, --checksum" '0 B staged' "$(staged)"
  echo "ok - $nodes nodes: an update without changes, and one by contents"

  # The second one drops partitions, so that new ones get numbers between others. Then some are replicated.
  mkdir -p small/d && cp source/d/05? small/d
  update "few files" small
  head -c 400000 /dev/urandom >small/random
  seq 100000 >small/numbers
  update "vacant numbers" small --partitions 3
  equal "vacant partitions" 7 "$("$bin/fs-prepare" info ds | grep -c ' 4096 (4.0 KiB), 0 files')"
  head -c 300000 /dev/urandom >small/everywhere
  rm small/numbers
  update "--replicate" small --partitions 2 --replicate everywhere
  read_all "--replicate" small
  echo "ok - $nodes nodes: numbers between others, and replicated files"

  lost=$(find ds -name 'part-*' -printf '%s %f\n' | sort -n | tail -n 1 | cut -d ' ' -f 2)
  rm "one/$lost" "ds/$lost"
  update "a lost partition" small --replicate everywhere
  grep -q "ds/$lost: missing; what SOURCE has of it is packed again$" err || fail "$(cat err)"
  read_all "a lost partition" small
  echo "ok - $nodes nodes: a lost partition"
  rm -rf small
done

# Killed: the dataset and the nodes' copies stay, and the same command goes on.
seq 1000000 4000000 >source/slow
nodes=2
update_killed source ds
update "after a kill" source
equal "left after a killed one" "" "$(find local -name '.pack-*'; ls -d .ds.partial-* 2>/dev/null)"
read_all "after a kill" source
echo "ok - a killed update"

for nodes in $(half 2 4); do
  rm -rf source one local
  cp -a first source
  on_nodes --mount "$mnt" --force
  "$bin/fs-prepare" pack --mount "$mnt" source one >one.out
  equal "without DATASET" "index manifest" "$(cd source.fs && echo *)"
  read_nodes "without DATASET"
  # shellcheck disable=SC2016
  launch --emulate "$nodes" --dataset source.fs --mount "$mnt" -- \
    sh -c 'touch running; until [ -e updated ]; do sleep 0.02; done; diff -r first "$0"' "$mnt" >job.out 2>&1 &
  job=$!
  wait_until 30 test -e running
  rm source/d/0[2-3]* source/d/e/large1
  printf 'new content\n' >source/d/006
  head -c 900000 /dev/urandom >source/d/new
  cp source/d/new source/d/new-too
  ln source/d/011 source/d/000-link
  both "an update"
  equal "$nodes nodes" '0 B staged' "$(staged)"
  touch updated
  wait "$job" || fail "that job: $(cat job.out)"
  rm running updated
  equal "without DATASET" "index manifest" "$(cd source.fs && echo *)"
  cp -p source/d/e/large0 source/d/kept-content
  on_nodes --update
  grep -q ', packed 1.4 MiB, ' out || fail "$(cat out)"
  read_nodes "content that is kept, and cannot be compared here"
  equal "datasets" 3 "$(ids | wc -l)"
  "$bin/fs-launch" clean --local-dir local --staged --except source.fs 2>err || fail "$(cat err)"
  equal "datasets" "$("$bin/fs-prepare" info source.fs | sed -n 's/^id *//p')" "$(ids)"
  read_nodes "clean --except"
  expect_status 2 "$bin/fs-launch" clean --local-dir local --except source.fs
  expect_status 125 "$bin/fs-launch" clean --local-dir local --staged --except nosuch
  one_line err 'nosuch: no such dataset '
  echo "ok - $nodes nodes: on the nodes only, without DATASET; a job that reads the old dataset; older copies can go"

  find source -type f ! -name 050 -delete
  on_nodes --update
  echo more >source/more
  : >source/empty
  on_nodes --update
  read_nodes "vacant partitions"
  [ "$("$bin/fs-prepare" info source.fs | grep -c ' 4096 (4.0 KiB), 0 files')" -ge 3 ] || fail "no vacant partitions"
  equal "vacant partitions" "index manifest" "$(cd source.fs && echo *)"
  rm source/d/050 source/more
  on_nodes --update
  on_nodes --update
  read_nodes "no partition with bytes"
  echo "ok - $nodes nodes: vacant partitions"

  rm -rf source && cp -a first source
  on_nodes --force --mount "$mnt"
  rm -rf local/fanstore-node1
  expect_status 125 launch --emulate "$nodes" --dataset source.fs -- true
  one_line err '/source.fs: [0-9]+ of [0-9]+ partitions are on no node of this job \(.*\): .*, or pack what is lost again with --update$'
  on_nodes --update
  one_line err 'warning: .*/source.fs: [0-9]+ of [0-9]+ partitions are on no node of this job; what SOURCE has of them is packed again$'
  read_nodes "a lost node"
  # Of the partition that this update has left empty in part, SOURCE has not all bytes.
  expect_status 1 "$bin/fs-prepare" verify --repair-from source source.fs
  grep -q 'source.fs: not all of its partitions could be made here, so none was; they stay on the nodes$' err ||
    fail "$(cat err)"
  equal "a repair in part" "index manifest" "$(cd source.fs && echo *)"
  read_nodes "a repair in part"
  mv local elsewhere
  expect_status 1 "$bin/fs-prepare" pack --local-dir local --emulate "$nodes" --update source
  one_line err '/source.fs: none of its partitions is on a node of this job; look at --local-dir and the nodes, or '
  rm -rf local
  mv elsewhere local
  echo "ok - $nodes nodes: a lost node, and a wrong --local-dir"

  # Killed.
  seq 1000000 4000000 >source/slow
  update_killed source
  on_nodes --update
  equal "left after a killed one" "" "$(find local -name '.pack-*'; ls -d .source.fs.partial-* 2>/dev/null)"
  read_nodes "after a kill"
  echo "ok - $nodes nodes: a killed update of a dataset on the nodes only"
done

expect_status 1 "$bin/fs-prepare" pack --update --nodes-only --local-dir local --emulate 2 source ds
one_line err '/ds: its partitions are in it; name it as DATASET, without --nodes-only$'
expect_status 1 "$bin/fs-prepare" pack --update --local-dir local --emulate 2 source source.fs
one_line err 'source.fs: its partitions are on the nodes only \(--nodes-only\); update it there, with --nodes-only, or '
expect_status 1 "$bin/fs-prepare" pack --update --checksum --local-dir local --emulate 2 source
one_line err 'source.fs: its partitions are on the nodes only \(--nodes-only\); --checksum would read them here; leave it out$'
expect_status 2 "$bin/fs-prepare" pack source
one_line err 'pack: DATASET is missing '
expect_status 2 "$bin/fs-prepare" pack --local-dir local --emulate 2 source.fs
one_line err 'pack: SOURCE is missing '
expect_status 2 "$bin/fs-prepare" pack --local-dir local --emulate 2 ../nosuch
one_line err "pack: '../nosuch' gives DATASET no name \(No such file or directory\); give one$"
expect_status 2 "$bin/fs-prepare" pack --local-dir local --emulate 2 /
one_line err "pack: '/' gives DATASET no name "
expect_status 1 "$bin/fs-prepare" pack --update --block-size 64K --local-dir local --emulate 2 source ds
one_line err 'another --block-size'
no_leftovers
echo "ok - refused in one line"
