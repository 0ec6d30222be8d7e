#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The prolog and epilog of docs/examples/slurm, run as Slurm does: as root with little environment.
# The prolog makes the user's local directory. The epilog removes what a job that was killed has
# left, and nothing of the user's other job, which is running. tests/mpi/slurm.sh has them in Slurm.
. "$(dirname "$0")/../functions.sh"
[ "$(id -u)" = 0 ] || skip "Slurm runs them as root"
need_command runuser

make -C "$root" --no-print-directory install PREFIX="$work/opt" >"$work/install" 2>&1 || {
  cat "$work/install"
  fail "make install"
}
bin=$work/opt/bin
mkdir "$work/nvme" "$work/source"
chmod 1777 "$work/nvme"
cat >"$work/opt/bin/logger" <<END
#!/bin/sh
cat >>$work/said
END
chmod +x "$work/opt/bin/logger"
for script in prolog epilog; do
  sed "s|^local=/local|local=$work/nvme|; s|/usr/local/bin|$work/opt/bin|" \
    "$root/docs/examples/slurm/$script" >"$work/$script"
done
slurm() { # SCRIPT USER
  env -i SLURM_JOB_USER="$2" SLURM_JOB_ID=7 bash "$work/$1" || fail "the $1 fails"
}
number_lines 1000 >"$work/source/file"
pack "$work/source" "$work/ds" --mount "$mnt"

slurm prolog nobody
local=$work/nvme/nobody
equal "the local directory" "700 nobody" "$(stat -c '%a %U' "$local")"
slurm prolog no-such-user 2>"$work/err"
slurm epilog no-such-user
[ ! -s "$work/err" ] || fail "$(cat "$work/err")"
[ ! -e "$work/nvme/no-such-user" ] || fail "a directory for nobody"

job() { # FILE: a job of nobody's that makes FILE and waits until it is gone
  runuser -u nobody -- env -u FANSTORE_RUN_BASE TMPDIR="$work/nvme" HOME="$work/nvme" FS_TEST_JOB="$1" \
    "$bin/fs-launch" --dataset "$work/ds" --local-dir "$local" --emulate 2 -- \
    sh -c "echo \$FANSTORE_RUN >$1.run; cat $mnt/file >$1.out; touch $1; while [ -e $1 ]; do sleep 0.1; done; cat $mnt/file | tail -n 1" \
    >"$1.end" 2>&1 &
}
chmod 777 "$work"
job "$work/killed"
wait_until 30 test -e "$work/killed"
job "$work/running"
second=$!
wait_until 30 test -e "$work/running"
of_killed() { grep -lzxsF "FS_TEST_JOB=$work/killed" /proc/[0-9]*/environ | grep -o '[0-9]*'; }
none_of_killed() { ! of_killed >/dev/null; }
of_killed | xargs kill -KILL || :
wait_until 40 none_of_killed
killed=$(cat "$work/killed.run")
running=$(cat "$work/running.run")
[ -d "$killed" ] || fail "no run directory '$killed'"
[ -d "$running" ] || fail "no run directory '$running'"
# Directories in which something happened in the last ten seconds may stay.
left_by_killed() { find "$local" /dev/shm -path "*${killed##*/}*" "$@" 2>/dev/null; }
[ -n "$(left_by_killed)" ] || fail "nothing is left by the job that was killed"
left_by_killed -exec touch -h -d '-1 minute' {} +
slurm epilog nobody
left=$(left_by_killed)
[ -z "$left" ] || fail "left: $left"
[ -d "$running" ] || fail "the run directory of the other job is gone"
rm "$work/running"
wait $second || fail "the other job: $(cat "$work/running.end")"
equal "the other job reads on" "line 999" "$(grep line "$work/running.end")"
[ -n "$(find "$local" -name 'part-*')" ] || fail "the staged partitions are gone: $(cat "$work/said")"
echo "ok - prolog and epilog"
