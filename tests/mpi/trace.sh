#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# FANSTORE_TRACE on two emulated nodes, and fs-launch replay: the trace has the calls that were made, with places and
# sizes; it is replayed on the mount, on the directory, and on files that were made for it, without the names.
. "$(dirname "$0")/../functions.sh"

random_files "$work/source" 120 4 1500 9000
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
mv "$work/source" "$work/away"
files=$(find "$work/away" -type f | wc -l)
bytes=$(find "$work/away" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')

traced() { launch --dataset "$work/ds" --emulate 2 --discard --report "$work/r.json" -- "$@"; }
(cd "$work" && mkdir t && FANSTORE_TRACE=t/run traced "$python" "$root/tests/mpi/trace.py" "$mnt")
equal "processes" 3 "$(find "$work/t" -name 'run.*' | wc -l)"
"$bin/fs-launch" replay --list "$work/t/run" >"$work/list"
count() { awk -F '\t' -v call="$1" -v place="${2:-.}" '$5 == call && $9 >= 0 && $10 ~ place' "$work/list" | wc -l; }
equal "opens" $((files + 1)) "$(awk -F '\t' '$5 == "open" && $9 >= 0 && $7 == 524288' "$work/list" | wc -l)"
equal "stats" "$files" "$(count stat)"
equal "maps" 1 "$(count map)"
equal "reads of whole files" "$bytes" "$(awk -F '\t' '$5 == "read" && $7 == 0 && $8 != 1000 { n += $9 } $5 == "read" && $7 > 0 { n += $9 } END { print n + 0 }' "$work/list")"
equal "what is not there" 1 "$(awk -F '\t' '$5 == "open" && $9 == -2 && $12 ~ /\/none$/' "$work/list" | wc -l)"
equal "the output" 1 "$(awk -F '\t' '$5 == "open" && $12 ~ /\/out$/' "$work/list" | wc -l)"
for place in local remote; do
  [ "$(count read $place)" -gt 0 ] || fail "no read of place $place"
done
echo "ok - the trace has the calls"

replay() { # DIRECTORY TRACE
  "$bin/fs-launch" replay --speed max --dir "$1" "$2" >"$work/played" || { cat "$work/played"; fail "replay on $1"; }
  equal "replayed stats" "$files" "$(awk '$1 == "stat" { print $2 }' "$work/played")"
  equal "replayed reads" "$(count read)" "$(awk '$1 == "read" { print $2 }' "$work/played")"
}
replay "$work/away" "$work/t/run"
"$bin/fs-launch" replay --save "$work/all.trace" --no-names "$work/t/run"
if grep -qaE "$(basename "$(find "$work/away" -type f | head -n 1)" | sed 's/\.[^.]*$//')|nowhere" "$work/all.trace"; then
  fail "names are in the trace"
fi
mkdir "$work/made"
"$bin/fs-launch" replay --make "$work/made" "$work/all.trace" >"$work/out"
equal "files made" "$files" "$(find "$work/made" -type f | wc -l)"
equal "bytes made" "$bytes" "$(find "$work/made" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')"
replay "$work/made" "$work/all.trace"
"$bin/fs-launch" replay --speed 2 --dir "$work/made" "$work/all.trace" >"$work/played"
traced "$bin/fs-launch" replay --speed max "$work/t/run" >"$work/played"
equal "on the mount" "$((files + 1))" "$(json "$work/r.json" "r['total']['opens']")"
echo "ok - replayed on the directory, on made files and on the mount"

# What is no trace, or half of one.
expect_status 125 "$bin/fs-launch" replay "$work/nothing"
one_line "$work/err" 'there is no such trace'
expect_status 125 "$bin/fs-launch" replay --list "$work/list"
one_line "$work/err" 'not a trace'
expect_status 2 "$bin/fs-launch" replay
expect_status 2 "$bin/fs-launch" replay --no-names "$work/t/run"
expect_status 125 "$bin/fs-launch" replay --save "$work/all.trace" "$work/t/run"
one_line "$work/err" 'File exists'
head -c 1000 "$work/all.trace" >"$work/half.trace"
"$bin/fs-launch" replay --list "$work/half.trace" >"$work/out" 2>"$work/err"
one_line "$work/err" 'ended without a word'
# A program whose trace cannot be written goes on.
first=$(cd "$work/away" && find . -type f | sort | head -n 1)
FANSTORE_TRACE=$work/no/directory plain "$work/ds" "$mnt" cat "$mnt/$first" >"$work/out" 2>"$work/err"
cmp "$work/out" "$work/away/$first"
one_line "$work/err" 'no trace is written: no such file'
if unshare -rm true 2>/dev/null; then
  mkdir "$work/small"
  FANSTORE_TRACE=$work/small/run plain "$work/ds" "$mnt" unshare -rm sh -c 'mount -t tmpfs -o size=1m none "$0"
    cat "$1"' "$work/small" "$mnt/$first" >"$work/out" 2>"$work/err"
  cmp "$work/out" "$work/away/$first"
  one_line "$work/err" 'no trace is written: no space'
fi
# A file-size limit that leaves no room for a trace ends no program.
FANSTORE_TRACE=$work/t/limit plain "$work/ds" "$mnt" "$python" -c 'import os, resource, sys
open(sys.argv[1]).close()
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
if os.fork() == 0:
  open(sys.argv[1]).close()
  os._exit(0)
sys.exit(os.wait()[1])' "$mnt/$first" 2>"$work/err" || fail "a file-size limit ended a program"
grep -q 'ulimit -f' "$work/err" || fail "no word of the file-size limit: $(cat "$work/err")"
# A killed process leaves what it did.
FANSTORE_TRACE=$work/t/killed plain "$work/ds" "$mnt" "$python" -c 'import os, sys
open(sys.argv[1]).close()
os.kill(os.getpid(), 9)' "$mnt/$first" || true
"$bin/fs-launch" replay --list "$work/t/killed" >"$work/list" 2>"$work/err"
[ "$(count open)" -gt 0 ] || fail "a killed process has no trace"
# The end of a program whose threads go on.
cc -o "$work/trace_end" "$(dirname "$0")/trace_end.c" -pthread
FANSTORE_TRACE=$work/t/end plain "$work/ds" "$mnt" "$work/trace_end" "$mnt" "$first" | { sleep 0.3; cat >"$work/out"; }
"$bin/fs-launch" replay --list "$work/t/end" >"$work/list" 2>"$work/err"
[ "$(count open)" -gt 0 ] || fail "no trace of a program whose threads go on"
# What a trace from somebody else names does not command the terminal.
"$python" -c 'import sys
trace = bytearray(open(sys.argv[1], "rb").read())
trace[56:60] = b"\x1b[2J"
while b"/mount/n" in trace: trace[trace.index(b"/mount/n") + 1] = 0x1b
open(sys.argv[2], "wb").write(trace)' "$work/all.trace" "$work/odd.trace"
"$bin/fs-launch" replay --list "$work/odd.trace" >"$work/out" 2>&1
"$bin/fs-launch" replay --speed max --dir "$work" "$work/odd.trace" >>"$work/out" 2>&1 || true
grep -q 'calls failed' "$work/out" || fail "no call of the odd trace failed"
if grep -q $'\033' "$work/out"; then fail "a trace wrote control characters"; fi
no_leftovers
