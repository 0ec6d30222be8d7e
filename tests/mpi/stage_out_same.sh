#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# --stage-out, where what is in the directory could be taken for what it is not: two jobs that copy to one directory at
# the same time; files that change without a trace in their times; names that are gone with their nodes.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/stuck.bash"

random_files "$work/source" 5 1 1000
pack "$work/source" "$work/ds" --partitions 1 --mount "$mnt"
out=$work/durable
mkdir "$out"

# Both have all bytes of their copies in files without a name yet when the first gets its own.
job() { # NAME
  stuck STUCK_FSYNC "$1" "$1"
  "${launch_stuck[@]}" --dataset "$work/ds" --emulate 1 --stage-out "$out" -- \
    bash -c 'head -c 300000 /dev/urandom >"$1/file$2" && md5sum <"$1/file$2" >"$3/sum$2"' - "$mnt" "$1" "$work" \
    >"$work/log$1" 2>&1 &
  wait_until 60 test -e "$work/$1.in"
}
for i in 1 2; do # staging has fsyncs of its own
  expect_status 0 "$bin/fs-launch" --local-dir "$work/local$i" --dataset "$work/ds" --emulate 1 -- true
done
job 1 && first=$!
job 2 && second=$!
touch "$work/1.go"
wait "$first" || fail "the first job: $(cat "$work/log1")"
touch "$work/2.go"
wait "$second" || fail "the second job: $(cat "$work/log2")"
for i in 1 2; do equal "file$i" "$(cat "$work/sum$i")" "$(md5sum <"$out/file$i")"; done
equal "left" "" "$(find "$out" -maxdepth 1 -name '.fanstore-*-*')"
echo "ok - two jobs at once"

# Written through a mapping, on a file system that takes no note of that; and with its times set back.
cat >"$work/untold.py" <<'END'
import mmap, os, sys, time
below, out = sys.argv[1:]
with open(below + "/mapped", "xb+") as f:
    f.truncate(8192)
    m = mmap.mmap(f.fileno(), 0)
m[:6] = b"before"
with open(below + "/back", "x") as f:
    f.write("before")
times = os.stat(below + "/back").st_mtime_ns
for i in range(300):
    if all(os.path.exists(out + "/" + n) for n in ("mapped", "back")):
        break
    time.sleep(0.1)
assert open(out + "/mapped", "rb").read(6) == b"before"
m[:6] = b"later "
with open(below + "/back", "w") as f:
    f.write("later ")
os.utime(below + "/back", ns=(times, times))
END
untold() {
  rm -rf "$out" && mkdir "$out"
  expect_status 0 "$@" "$bin/fs-launch" --local-dir "$work/untold" --dataset "$work/ds" --emulate 1 --stage-out "$out" -- \
    "$python" "$work/untold.py" "$mnt" "$out"
  for file in mapped back; do equal "$file" "later " "$(head -c 6 "$out/$file")"; done
}
mkdir "$work/untold"
untold
if unshare -m true 2>/dev/null; then
  untold unshare -m sh -c 'mount -t tmpfs -o size=16m none "$0" && exec "$@"' "$work/untold"
else
  say "no mount namespaces here: not tried with tmpfs"
fi
echo "ok - changes that no time tells of"

# A symlink where the job has a directory: of an earlier job's, with its files behind it; and of the user's.
rm -rf "$out" && mkdir "$out" "$work/elsewhere"
again() { expect_status 0 launch --dataset "$work/ds" --emulate 2 --stage-out "$out" "$@"; }
again -- sh -c 'cd "$1" && mkdir ckpt-5 empty && echo old >ckpt-5/model && ln -s ckpt-5 latest' - "$mnt"
again --stage-in "$out" -- sh -c 'cd "$1" && [ "$(cat latest/model)" = old ] && rm latest && mkdir latest &&
  echo new >latest/model && rmdir empty && echo file >empty && for i in $(seq 100); do
  [ "$(cat "$2/latest/model")" = new ] && [ "$(cat "$2/ckpt-5/model")" = old ] && exit 0
  sleep 0.1; done; exit 1' - "$mnt" "$out"
equal "the old one" old "$(cat "$out/ckpt-5/model")"
equal "the new one" new "$(cat "$out/latest/model")"
equal "a file for a directory" file "$(cat "$out/empty")"
ln -s "$work/elsewhere" "$out/there"
ln -s "$work/elsewhere" "$out/bare"
echo mine >"$work/elsewhere/x"
again -- sh -c 'cd "$1" && mkdir there bare && echo job >there/x' - "$mnt"
equal "elsewhere" mine "$(cat "$work"/elsewhere/*)"
equal "in the directory" job "$(cat "$out/there/x")"
if [ -L "$out/bare" ] || [ ! -d "$out/bare" ]; then fail "bare is no directory"; fi
echo "ok - symlinks lead nowhere else"

# Three of four daemons die at once, and half of the names with them: no copy goes.
rm -rf "$out" && mkdir "$out"
cat >"$work/names.sh" <<'END'
cd "$1" || exit
for i in $(seq 0 11); do mkdir "o$i" && echo "file $i" >"o$i/f" || exit; done
for i in $(seq 300); do [ "$(cat "$2"/o*/f | wc -l)" = 12 ] && break; sleep 0.1; done
[ "$i" -lt 300 ] || exit 9
for p in /proc/[0-9]*; do
  { read -r comm <"$p/comm"; } 2>/dev/null || continue
  [ "$comm" = fanstored ] || continue
  tr '\0' '\n' <"$p/cmdline" | grep -qxF "$3" || continue
  tr '\0' '\n' <"$p/environ" | grep -qx OMPI_COMM_WORLD_RANK=0 || echo "${p#/proc/}"
done >"$3.pids"
kill -9 $(cat "$3.pids")
sleep 6
END
status=0
"$bin/fs-launch" --local-dir "$work/names" --dataset "$work/ds" --emulate 4 --deadline 1000 --stage-out "$out" -- \
  bash "$work/names.sh" "$mnt" "$out" "$work/names" >"$work/out" 2>"$work/err" || status=$?
equal "killed" 3 "$(wc -l <"$work/names.pids")"
for i in $(seq 0 11); do equal "o$i/f" "file $i" "$(cat "$out/o$i/f" 2>&1)"; done
say "status $status: $(grep -c 'could not be staged out' "$work/err")"
echo "ok - names that died"
