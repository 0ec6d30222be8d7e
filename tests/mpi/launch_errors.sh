#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# waits
# Bad input: one clear line each, the right exit status, nothing started and nothing left.
. "$(dirname "$0")/../functions.sh"

make_tree "$work/source"
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
ds=$work/ds
cd "$work"

# bad STATUS PATTERN fs-launch's words...
bad() {
  local want=$1 pattern=$2
  shift 2
  expect_status "$want" "$bin/fs-launch" "$@" </dev/null
  one_line "$work/err" "^fs-launch: $pattern"
  [ ! -s "$work/out" ] || fail "something on standard output: $*"
  echo "ok - $(cat "$work/err")"
}
copy() { # NAME: a copy of the dataset to be damaged
  rm -rf "${work:?}/$1"
  cp -r "$ds" "$work/$1"
}
l=(--local-dir "$work/local")

bad 2 "unknown option '--bogus'" --bogus
bad 2 "option '--dataset' needs an argument" --dataset
bad 2 "COMMAND is missing" --dataset "$ds"
bad 2 "--dataset is missing .see" --np 2
bad 2 "--dataset is missing, and 'stat' is taken for COMMAND" stat
bad 2 "option '--dataset' needs an argument" --dataset -- true
bad 2 "option '--stage-out' needs an argument" --dataset "$ds" --stage-out --np 2 -- true
bad 2 "--mount here: give an absolute path" --dataset "$ds" --mount here -- true
bad 2 '--mount a\\n\\x1b\[1mb\\x07: give an absolute path' --dataset "$ds" --mount $'a\n\e[1mb\a' -- true
bad 125 'a\\n\\x1b\[1mb: no such dataset' --dataset $'a\n\e[1mb' -- true
bad 2 "--mount '': give an absolute path" --dataset "$ds" --mount '' -- true
bad 2 "--mount /x: put it after the --dataset" --mount /x --dataset "$ds" -- true
bad 2 "--emulate 0: give a number" --dataset "$ds" --emulate 0 -- true
bad 2 "--np two: give a number" --dataset "$ds" --np two -- true
bad 2 "--cache lots: give a size" --dataset "$ds" --cache lots -- true
bad 2 "--emulate, --hosts and --hostfile: give one" --dataset "$ds" --emulate 2 --hosts a,b -- true
for value in '' 10.0.0.0/33 10.0.0/8 a,b; do
  bad 2 "--network ($value|''): give an interface as eth0, or a network" --dataset "$ds" --hosts a,b --network "$value" -- true
done
# Each value that an option cannot have: too little, too much, none, of another kind.
for option in emulate np replicas start-timeout deadline cache output-limit output-replicas verify local-io; do
  for value in '' -1 99999999999999999999999 1.5 x; do
    bad 2 "--$option ($value|''): give " --dataset "$ds" --$option "$value" -- true
  done
done
for option in local-dir hosts hostfile stage-out stage-in report; do
  bad 2 "--$option '': give " --dataset "$ds" "--$option=" -- true
done
bad 2 "--deadline 9: give a number from 10 to 3600000" --dataset "$ds" --deadline 9 -- true
bad 2 "--hosts .*: not a list of hosts" --dataset "$ds" --hosts a,,b -- true
bad 2 "--hosts .*: not a list of hosts" --dataset "$ds" --hosts=-oProxyCommand=id -- true
bad 2 "--hosts .*: not a list of hosts" --dataset "$ds" --hosts 'a b' -- true
SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST='f[1-2]' SLURM_PROCID=1 \
  bad 2 "this is task 1 of a job step, .*srun -N1 -n1" --dataset "$ds" -- true
bad 2 "--replicas 7: at most 6, or 2, the number of nodes" --dataset "$ds" --emulate 2 --replicas 7 -- true
# Of an option with one value, two; of options that contradict each other, both.
for option in "local-dir /x" "emulate 2" "hosts a" "np 2" "replicas 2" "cache 1G" "local-io auto" "report r" "stage-out d" \
  "output-limit 1G" "stage-in d" "output-replicas 0" "start-timeout 9" "deadline 90" "verify always"; do
  bad 2 "--${option% *}: give it once" --dataset "$ds" "--${option% *}" "${option#* }" "--${option% *}=${option#* }" -- true
done
bad 2 "--local-dir: give it once" clean --local-dir a -l b
for option in --keep --stage-out=d --stage-in=d --output-limit=1G --output-replicas=1; do
  bad 2 "${option%=*} and --read-only: give one" --dataset "$ds" $option --read-only -- true
done
bad 2 "--keep and --stage-out: give one" --dataset "$ds" --keep --stage-out d -- true
half=$(awk '/^MemTotal/ { print int($2 * 3 / 4) }' /proc/meminfo)
bad 125 "node [01] .*--cache .* on each of 2 nodes: this host .* has .* of memory: give at most [0-9]+M each$" "${l[@]}" \
  --dataset "$ds" --emulate 2 --cache "${half}K" -- true
bad 125 ".*nowhere: no such dataset" "${l[@]}" --dataset nowhere -- true
bad 125 ".*no such dataset: .*not packed yet, run: fs-prepare pack .*/source DATASET$" "${l[@]}" --dataset source -- true
bad 125 "two datasets at one mount" "${l[@]}" --dataset "$ds" --dataset "$ds" -- true
mkdir places
ln -s "$ds" places/dataset
ln -s "$(dirname "$mnt")" places/mounts
mkdir -p "$(dirname "$mnt")"
for dir in "$ds" ds/below places/dataset/x "$work/places/../ds"; do
  bad 125 "local directory .*: it lies in the dataset $ds: choose another with --local-dir" --local-dir "$dir" --dataset "$ds" -- true
done
for dir in "$mnt" "$mnt/x" "places/mounts/${mnt##*/}/x"; do
  bad 125 "local directory .*: it lies below the mount $mnt: choose" --local-dir "$dir" --dataset "$ds" -- true
done
bad 125 "local directory .*: it lies below the mount .*/places/mounts/x: choose" --local-dir "$(dirname "$mnt")/x" \
  --dataset "$ds" --mount "$work/places/mounts/x" -- true
TMPDIR=$mnt/tmp bad 125 "local directory $mnt/tmp/fanstore-local-.*: it lies below the mount" --dataset "$ds" -- true
for dir in "$mnt" "$(dirname "$mnt")/x" "$ds/below" "$ds/x"; do [ ! -e "$dir" ] || fail "$dir was made"; done
bad 127 "nosuchcommand: command not found" "${l[@]}" --dataset "$ds" -- nosuchcommand
bad 127 "./nosuch: command not found" "${l[@]}" --dataset "$ds" -- ./nosuch
bad 126 ".*manifest: not executable" "${l[@]}" --dataset "$ds" -- "$ds/manifest"
bad 125 "--report /nonexistent/r: No such file" "${l[@]}" --dataset "$ds" --report /nonexistent/r -- true
mkfifo fifo
bad 125 "--report fifo: No such device or address" "${l[@]}" --dataset "$ds" --report fifo -- true
# Somebody who reads it, but not to the end.
exec {fifo}<>fifo
sleep 1000 <&"$fifo" {fifo}>&- &
exec {fifo}>&-
# shellcheck disable=SC2016
expect_status 0 timeout -s KILL 100 "$bin/fs-launch" --local-dir "$work/beside" --dataset "$ds" --report fifo -- \
  sh -c 'kill $0; while grep -q "^State:.[^Z]" /proc/$0/status; do sleep 0.1; done 2>/dev/null' $!
grep -qx 'fs-launch: --report fifo: No such device or address' "$work/err" || fail "a report that nobody reads: $(cat "$work/err")"
bad 125 "--hostfile nofile: No such file" "${l[@]}" --dataset "$ds" --hostfile nofile -- true
: >empty
bad 125 "--hostfile empty: no host in it" "${l[@]}" --dataset "$ds" --hostfile empty -- true

copy truncated
truncate -s -1000 truncated/part-00002
bad 125 ".*truncated/part-00002: truncated partition: it has" "${l[@]}" --dataset truncated -- true
copy missing
rm missing/part-00001
bad 125 ".*missing/part-00001: No such file" "${l[@]}" --dataset missing -- true
copy newer
"$python" - newer/index <<'END'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(8)
    f.write((99).to_bytes(4, "little"))
END
bad 125 ".*newer/index: .*version" "${l[@]}" --dataset newer -- true
copy newmanifest
sed -i '1s/[0-9][0-9]*/99/' newmanifest/manifest
bad 125 ".*newmanifest.*(version|newer)" "${l[@]}" --dataset newmanifest -- true
copy damaged
"$python" - damaged/part-00003 <<'END'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(6000)
    b = f.read(1)
    f.seek(6000)
    f.write(bytes([b[0] ^ 1]))
END
mkdir empty.path
ln -s /usr/bin/wc /usr/bin/grep /usr/bin/cat /usr/bin/tail empty.path
PATH=$work/empty.path bad 125 "mpirun is not in PATH: install Open MPI" "${l[@]}" --dataset "$ds" -- /bin/true
echo file >notadir
if [ "$(id -u)" = 0 ]; then # what another user has made first
  mkdir -p others/squat/fanstore-outputs others/kept target staged
  chown 65534 others/squat/fanstore-outputs
  ln -s "$work/target" others/link
  ln -s "$work/target" others/kept/fanstore-outputs
  chown -h 65534 others/link others/kept/fanstore-outputs
  for option in --keep "--stage-out=$work/staged"; do
    bad 125 ".*/squat/fanstore-outputs belongs to another user: give --local-dir" --local-dir others/squat \
      "$option" --dataset "$ds" --emulate 1 -- true
    bad 125 ".*/kept/fanstore-outputs belongs to another user: give --local-dir" --local-dir others/kept "$option" --dataset "$ds" --emulate 1 -- true
  done
  mkdir -p others/his/fanstore
  chown 65534 others/his/fanstore
  for option in --verbose --staged; do
    bad 1 ".*/others/his/fanstore belongs to [a-z ]* \(user 65534\) and was left alone: run fs-launch clean as that user" \
      clean --local-dir others/his $option
  done
  bad 125 ".*/others/link belongs to another user: give --local-dir" --local-dir others/link --dataset "$ds" -- true
  equal "nothing in what a symlink of another user's leads to" '' "$(ls target)"
  chown -h 0 others/link
  # Its copies have become another user's.
  "$bin/fs-launch" --local-dir others/link --dataset "$ds" --report "$work/others.json" -- sh -c "chown 65534 target/fanstore*/*/part-* &&
    diff -r --no-dereference source '$mnt'" 2>"$work/err" || fail "read from elsewhere: $(cat "$work/err")"
  equal "bytes of another user's copies" 0 "$(json "$work/others.json" "r['total']['bytes_local']")"
fi
bad 125 "local directory .*notadir/x: Not a directory" --local-dir notadir/x --dataset "$ds" -- true
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
  mkdir ro full
  expect_status 125 unshare -m sh -c \
    "mount -t tmpfs -o ro none ro && exec '$bin/fs-launch' --local-dir ro --dataset ds -- true"
  one_line "$work/err" "^fs-launch: local directory .*/ro: Read-only file system"
  echo "ok - $(cat "$work/err")"
  size=$(($(stat -c %s ds/index) / 1024 + $(stat -c %s ds/part-00000) / 1024 + 300))
  expect_status 0 unshare -m sh -c "mount -t tmpfs -o size=${size}k none full && exec '$bin/fs-launch' \
    --local-dir full --report '$work/full.json' --dataset ds -- diff -r --no-dereference source '$mnt'"
  grep -q "^fs-launch: warning: no room for [1-3] of 4 partitions" "$work/err" || fail "no word of the lack of room"
  [ "$(json full.json "r['total']['bytes_shared']")" -gt 0 ] || fail "nothing from shared storage"
  echo "ok - local directory full: $(grep 'no room' "$work/err")"
fi
# Another MPI's mpirun, one that is too old, and the telling part of a message of Open MPI's.
mkdir other.mpi
fake_mpirun() { # WHAT --version PRINTS; the messages of a start
  printf '#!/bin/sh\n[ "$1" != --version ] || { echo "%s"; exit; }\ncat "$0.says" >&2\nexit 1\n' "$1" >other.mpi/mpirun
  cat >other.mpi/mpirun.says
  chmod +x other.mpi/mpirun
}
while read -r version; do
  fake_mpirun "$version" </dev/null
  PATH=$work/other.mpi:$PATH bad 125 ".*/other.mpi/mpirun: \"${version//[()*]/.}\", but FanStore needs Open MPI 4.1 or 5: .*" \
    "${l[@]}" --dataset "$ds" -- true
done <<'END'
HYDRA build details:
Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307
mpirun (Open MPI) 3.1.6
END
fake_mpirun 'mpirun (Open MPI) 5.0.7' <<'END'
Some line of its own
--------------------------------------------------------------------------
A requested component was not found, or was unable to be
opened.  This means that this component is either not installed or
is unable to be used on your system.

  Host:      h1
Framework: plm
Component: isolated
--------------------------------------------------------------------------
--------------------------------------------------------------------------
Another message. It says less.
--------------------------------------------------------------------------
END
PATH=$work/other.mpi:$PATH bad 125 "the daemons could not be started: A requested component was not found, or was unable to be \
opened \(Host: h1, Framework: plm, Component: isolated\)" "${l[@]}" --dataset "$ds" -- true
if command -v ssh >/dev/null; then
  # mpirun ends at the first of the two, which may be before the second one's line.
  bad 125 ".*: ssh: [^;]* (nosuchhost|other)[^;]*(; ssh: [^;]* (nosuchhost|other)[^;]*)?; 'ssh HOST true' must work for each host$" "${l[@]}" --dataset "$ds" \
    --hosts nosuchhost.invalid,other.invalid -- true
fi
# A host that never answers: the remote shell hangs. This takes 6 s on a quiet machine.
printf '#!/bin/sh\nsleep 120\n' >agent
chmod +x agent
start=$SECONDS
OMPI_MCA_plm_rsh_agent=$work/agent bad 125 "no answer from the hosts \(10.255.255.1,10.255.255.2\) within 2 s" \
  "${l[@]}" --dataset "$ds" --hosts 10.255.255.1,10.255.255.2 --start-timeout 2 -- true
[ $((SECONDS - start)) -lt 60 ] || fail "it took $((SECONDS - start)) s"

# A damaged partition is not staged; its files come from nowhere else, the others are there.
expect_status 0 launch --dataset damaged --report r.json -- true
grep -q 'damaged' "$work/err" || fail "the damaged partition is not told"
echo "ok - $(grep -m1 damaged "$work/err")"
for option in --help --version; do
  expect_status 0 "$bin/fs-launch" $option
  expect_status 0 "$bin/fs-launch" clean $option
done
expect_status 2 "$bin/fs-launch" clean extra
one_line "$work/err" "clean takes no argument 'extra'"
echo "ok - --help and --version"
no_leftovers
