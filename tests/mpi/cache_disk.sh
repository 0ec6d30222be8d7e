#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 25
# --cache-disk: blocks that the cache in memory has no room for are fetched once, and then come from the node's disk, also when the
# other node is gone. Damage there is found. The disk is given back when outputs need it. Nothing stays.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/stuck.bash"

random_files "$work/source" 200 1 100000
pack "$work/source" "$work/ds" --partitions 8 --mount "$mnt"
mv "$work/source" "$work/source.away"
sum=$("$python" "$root/tests/mpi/cache_disk.py" "$work/source.away/d00" 0 1)
read_all="$(printf %q "$python") $(printf %q "$root/tests/mpi/cache_disk.py") $mnt/d00"
epochs() { # COMMAND [OPTION...]: each line of its output must be the sum
  local command=$1
  shift
  expect_status 0 launch --dataset "$work/ds" --emulate 2 --cache 3M --report "$work/r.json" "$@" -- sh -c "$command"
  [ "$(sort -u "$work/out")" = "$sum" ] || fail "other bytes: $(cat "$work/out" "$work/err")"
}
mount_image() { # SIZE
  rm -f "$work/disk.img"
  truncate -s "$1" "$work/disk.img" && mkfs.ext4 -q "$work/disk.img" && mkdir -p "$work/disk" && mount -o loop "$work/disk.img" "$work/disk"
}
of() { json "$work/r.json" "r['nodes'][0]['$1']"; }

epochs "$read_all 0 4"
[ "$(of fetched_bytes)" -gt 30000000 ] || fail "without it $(of fetched_bytes) bytes were fetched"
equal "on disk" 0 "$(of disk_bytes)"
for size in 32M auto; do
  epochs "$read_all 0 4" --cache-disk $size
  [ "$(of fetched_bytes)" -lt 10300000 ] || fail "$size: $(of fetched_bytes) bytes were fetched"
  [ "$(of disk_bytes)" -gt 15000000 ] || fail "$size: $(of disk_bytes) bytes came from the disk"
  echo "ok - --cache-disk $size: each block is fetched once; $(of disk_bytes) bytes from the disk"
done
epochs "$read_all 0 4" --cache-disk 2M
[ "$(of disk_kept_bytes)" -le 2097152 ] || fail "$(of disk_kept_bytes) bytes were kept in 2M"
[ "$(of disk_bytes)" -gt 3000000 ] || fail "2M: $(of disk_bytes) bytes came from the disk"
echo "ok - no more than its size is kept"

# The other node and the shared copy are gone.
away="mkdir $work/gone && mv $work/ds/part-* $work/gone"
epochs "$read_all 0 2 && $away && $kill_daemon 1 $mnt && $read_all 2 2" --cache-disk 32M
equal "errors" 0 "$(of errors)"
mv "$work"/gone/* "$work/ds" && rmdir "$work/gone"
echo "ok - the disk has what a dead node had"

# All that is on the disk is overwritten.
cat >"$work/damage.sh" <<'END'
daemon=$("$kill_daemon" 0 "$1" pid)
for fd in /proc/"$daemon"/fd/*; do
  case $(readlink "$fd") in
    "$2"/*deleted*) n=$(($(stat -L -c %s "$fd"))) && head -c $n /dev/zero | dd of="$fd" conv=notrunc bs=1M status=none && exit ;;
  esac
done
exit 99
END
epochs "$read_all 0 2 && bash $work/damage.sh $mnt $work/local && $read_all 2 1" --cache-disk 32M
[ "$(of checksum_errors)" -gt 50 ] || fail "$(of checksum_errors) checksum errors"
echo "ok - damage is found: $(of checksum_errors) blocks were fetched again"

# A disk whose reads are never answered costs a stall, not one for each block, and no program an error.
stuck STUCK_CACHE hang
before=$SECONDS
expect_status 0 "${launch_stuck[@]}" --dataset "$work/ds" --emulate 2 --cache 3M --cache-disk 32M --report "$work/r.json" -- \
  sh -c "$read_all 0 2 && touch $work/hang.on && $read_all 2 3 && touch $work/hang.go && sleep 0.2 && $read_all 5 1"
[ "$(sort -u "$work/out")" = "$sum" ] || fail "hanging: other bytes: $(cat "$work/out" "$work/err")"
[ -e "$work/hang.in" ] || fail "no read was held up"
equal "errors while reads hang" 0 "$(of errors)"
[ $((SECONDS - before)) -lt 90 ] || fail "it took $((SECONDS - before)) s"
[ "$(grep -c 'it does not answer: what is there comes from other nodes meanwhile' "$work/err")" -le 2 ] || fail "told often: $(cat "$work/err")"
grep -q "^fs-launch: warning: .*--cache-disk: $work/local: it does not answer" "$work/err" || fail "not told: $(cat "$work/err")"
echo "ok - a disk that does not read"

# On a file system that is nearly full, it ends, and the outputs have the room.
if unshare -m true 2>/dev/null; then
  cat >"$work/full.sh" <<'END'
mount -t tmpfs -o size=58m none "$1" || exit 99
shift
exec "$@"
END
  cat >"$work/write.py" <<'END'
import sys, time
with open(sys.argv[1] + "/output", "wb") as f:
    for _ in range(32 * 4):
        f.write(bytes(262144))
        f.flush()
        time.sleep(0.03)
END
  mkdir "$work/local.full"
  bin_launch() { unshare -m bash "$work/full.sh" "$work/local.full" "$bin/fs-launch" --local-dir "$work/local.full" "$@"; }
  expect_status 0 bin_launch --dataset "$work/ds" --emulate 2 --cache 3M --cache-disk 32M --discard -- \
    sh -c "$read_all 0 2 && $python $work/write.py $mnt && $read_all 2 1"
  [ "$(sort -u "$work/out")" = "$sum" ] || fail "full: other bytes: $(cat "$work/out" "$work/err")"
  grep -q "^fs-launch: warning: .*--cache-disk: $work/local.full: nearly full: the job goes on without it" "$work/err" || fail "not told: $(cat "$work/err")"
  echo "ok - $(grep 'nearly full' "$work/err")"
  expect_status 0 bin_launch --dataset "$work/ds" --emulate 2 --cache-disk auto --discard -- true
  grep -q "^fs-launch: warning: .*--cache-disk: $work/local.full: that is memory and not a disk: give a size instead of auto: the job goes on" "$work/err" ||
    fail "tmpfs: $(cat "$work/err")"
fi

# A file system that lets nobody write for a while holds nobody up. Two jobs that share one take what is free, and no more.
thaw() { fsfreeze -u "$work/disk" 2>/dev/null || :; umount -l "$work/disk" 2>/dev/null || :; }
if mount_image 200M 2>"$work/err"; then
  trap 'thaw; rm -rf "${own_directory:-$work}"' EXIT
  bin_launch() { "$bin/fs-launch" --local-dir "$work/disk/local" "$@"; }
  expect_status 0 bin_launch --dataset "$work/ds" --emulate 2 --cache 3M --cache-disk 32M --discard --report "$work/r.json" -- \
    sh -c "fsfreeze -f $work/disk && $read_all 0 3; s=\$?; fsfreeze -u $work/disk; exit \$s"
  [ "$(sort -u "$work/out")" = "$sum" ] || fail "frozen: other bytes: $(cat "$work/out" "$work/err")"
  equal "errors while it is frozen" 0 "$(of errors)"
  thaw
  echo "ok - a disk that does not write"

  mount_image 64M
  both="$read_all 0 2 && touch \$0 && until [ -e \$1 ]; do sleep 0.1; done && $read_all 2 2"
  run_one() { # JOB OTHER
    bin_launch --dataset "$work/ds" --emulate 2 --cache 3M --cache-disk auto --discard --report "$work/$1.json" -- \
      sh -c "$both" "$work/$1.half" "$work/$2.half" >"$work/$1.out" 2>"$work/$1.err"
  }
  run_one one two &
  run_one two one || fail "the second job: $(cat "$work/two.err")"
  wait $! || fail "the first job: $(cat "$work/one.err")"
  cat "$work/one.err" "$work/two.err" >"$work/err"
  [ "$(cat "$work/one.out" "$work/two.out" | sort -u)" = "$sum" ] || fail "two jobs: other bytes: $(cat "$work/err")"
  if grep 'cache-disk' "$work/err"; then fail "one of two jobs has lost its cache"; fi
  kept=$(json "$work/one.json" "sum(n['disk_kept_bytes'] for n in r['nodes'])")
  kept=$((kept + $(json "$work/two.json" "sum(n['disk_kept_bytes'] for n in r['nodes'])")))
  thaw
  echo "ok - two jobs on one disk keep $kept bytes"
else
  echo "not tried - a disk that does not write: $(tail -n 1 "$work/err")"
fi

for value in 0 much -1; do
  expect_status 2 launch --dataset "$work/ds" --cache-disk "$value" -- true
  one_line "$work/err" "^fs-launch: --cache-disk $value: give a size as 100G, or auto"
done
[ -z "$(find "$work/local" -name '.new-cache*')" ] || fail "left behind"
no_leftovers
