#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# COMMAND and its ranks have a private /tmp, and meet their daemons all the same: the run directory is where they see it.
# A program that does not see it is told just that. Which place is taken, and that dead jobs are swept from every place.
. "$(dirname "$0")/../functions.sh"
need_command mpirun unshare
[ "$(id -u)" = 0 ] || skip "to mount needs root"
unshare -m true 2>/dev/null || skip "no mount namespaces here"
[ -d /dev/shm ] || skip "no /dev/shm here"

# A machine of this test's own: /mnt has all that the jobs need, /tmp and /dev/shm have nothing of others.
cat >"$work/machine.sh" <<'END'
set -euo pipefail
root=$1 build=$2
mount -t tmpfs none /mnt
mount -t tmpfs none /dev/shm
mkdir /mnt/build /mnt/work /mnt/source
cp -a "$build/bin" "$build/lib" /mnt/build
cp -a "$root/tests/functions.sh" /mnt/functions.sh
mount -t tmpfs none /tmp
export TMPDIR=/mnt FS_BUILD=/mnt/build
. /mnt/functions.sh
unset FANSTORE_RUN_BASE TMPDIR
mnt=/nowhere/m
number_lines 100 >/mnt/source/a
pack /mnt/source /mnt/ds --partitions 2 --mount "$mnt"
l=("$bin/fs-launch" --dataset /mnt/ds)
cat >/mnt/private.sh <<'PRIVATE'
mount -t tmpfs none /tmp
tail -n 1 /nowhere/m/a
echo made >"/nowhere/m/o.$1" && cat "/nowhere/m/o.$1"
PRIVATE
private=(unshare -m bash /mnt/private.sh)

expect_status 0 "${l[@]}" --local-dir /mnt/local --emulate 2 -- "${private[@]}" 0
equal "what COMMAND reads" "line 99 made" "$(paste -sd ' ' "$work/out")"
expect_status 0 "${l[@]}" --local-dir /mnt/local --emulate 2 --np 2 -- sh -c 'exec "$@" $OMPI_COMM_WORLD_RANK' sh "${private[@]}"
equal "what the ranks read" "line 99 line 99 made made" "$(sort "$work/out" | paste -sd ' ')"
! grep fanstore: "$work/err" || fail "the run directory is in another place"
echo "ok - a private /tmp, with --local-dir"
# By default outputs are in /tmp themselves; the dataset and the daemon are there.
expect_status 1 "${l[@]}" --report /mnt/r.json -- "${private[@]}" 0
equal "what COMMAND reads" "line 99" "$(cat "$work/out")"
equal "what the library says" 1 "$(grep -c '^fanstore: .*local directory.* does not exist for this program' "$work/err")"
equal "lines of the library" 1 "$(grep -c ^fanstore: "$work/err")"
equal "counted by the daemon" 1 "$(json /mnt/r.json 'r["nodes"][0]["opens"]')"
echo "ok - a private /tmp, without --local-dir"

FANSTORE_RUN_BASE=/tmp expect_status 1 "${l[@]}" --local-dir /mnt/local -- "${private[@]}" 0
equal "what COMMAND reads" "line 99" "$(cat "$work/out")"
equal "told" 2 "$(grep -c '^fanstore: ' "$work/err")" # tail and bash, in one line each
grep -qE "^fanstore: the job's run directory /tmp/fanstore-0/job-[^ ]* does not exist for this program" "$work/err" ||
  fail "$(cat "$work/err")"
echo "ok - a run directory that is not seen"

# An mpirun that starts nothing and tells where the run directory is, in which its own files are to be.
printf '#!/bin/sh\necho "$*" >/mnt/words\nexit 1\n' >/mnt/mpirun
chmod +x /mnt/mpirun
where() { # PLACE [OPTION...]
  local place=$1
  shift
  FANSTORE_MPIRUN=/mnt/mpirun expect_status 125 "${l[@]}" "$@" -- true
  grep -q -- "orte_tmpdir_base $place/fanstore-0/job-" /mnt/words || fail "not in $place: $(cat /mnt/words "$work/err")"
}
long=/mnt/$(printf '%060d' 0)
mkdir /mnt/other /mnt/his /mnt/open /mnt/t "$long"
mount -t ramfs none /mnt/other # as a network's, of a kind that is not known to be of this host
chmod 777 /mnt/open
where /dev/shm --local-dir /mnt/other
where /dev/shm --local-dir "$long"
where /dev/shm --local-dir /mnt/open
where /dev/shm --local-dir /tmp/local
TMPDIR=/mnt/t where /mnt/t --local-dir /tmp/local
TMPDIR=/tmp/t where /dev/shm
FANSTORE_RUN_BASE=/tmp/t where /tmp/t --local-dir /mnt/local
mount -t tmpfs -o ro none /dev/shm
TMPDIR=/tmp/t where /tmp/t
TMPDIR=/tmp$long where /tmp
umount /dev/shm
equal "left" "" "$(find /mnt /dev/shm /tmp -path '*/fanstore-0*' -print)"
echo "ok - the places, in their order"

export TMPDIR=/mnt/t
for place in /mnt/local /mnt/t /dev/shm /tmp; do
  mkdir -m 700 -p "$place/fanstore-0/job-dead"
  touch -d '1 hour ago' "$place/fanstore-0/job-dead/launch.lock" "$place/fanstore-0/job-dead"
done
mkdir -p /dev/shm/fanstore-0/fanstore/mine # as a local directory that a user has called so
touch -d '1 hour ago' /dev/shm/fanstore-0/fanstore{/mine,}
expect_status 0 "$bin/fs-launch" clean --local-dir /mnt/local
rmdir /dev/shm/fanstore-0/fanstore{/mine,} /dev/shm/fanstore-0 || fail "what is not a job's is gone"
equal "swept" 4 "$(grep -c '^fs-launch: removed /.*/job-dead, left by a job that died$' "$work/err")"
equal "left" "" "$(find /mnt /dev/shm /tmp -path '*/fanstore-0*' -print)"
echo "ok - dead jobs are swept from every place"
END
unshare -m bash "$work/machine.sh" "$root" "$build"
