#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# --verify: bytes of staged partitions change under a running job, and nobody is told. With `always` every byte that is read is
# still right: from the other node's replica, else from the shared copy, else an error and one line. With `remote` the
# same damage is not seen, which shows that it is there.
. "$(dirname "$0")/../functions.sh"
random_files "$work/source" 60 3 4096 20000 300000
number_lines 90000 >"$work/source/d00/lines" # lz4, several blocks
pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"

cat >"$work/damage.py" <<'END'
"""Changes a byte in each 1000 of every staged partition below the directory given, in place, as a disk does it: the
mtime stays. With "replace" in a new file that takes the name, "write" as a program does it."""
import os, sys
for directory, _, names in os.walk(sys.argv[1]):
    for name in names:
        if name.startswith("part-") and name[5:].isdigit():
            path = os.path.join(directory, name)
            how, was = os.environ["HOW"], os.stat(path)
            with open(path, "rb") as f:
                data = bytearray(f.read())
            for i in range(4096, len(data), 1000):
                data[i] ^= 0x20
            to = path + ".new" if how == "replace" else path
            with open(to, "wb" if how == "replace" else "r+b") as f:
                f.write(data)
            if how != "write":
                os.utime(to, ns=(was.st_atime_ns, was.st_mtime_ns))
            os.rename(to, path)
END
cat >"$work/job.sh" <<END
env -u LD_PRELOAD FANSTORE_ENV_AS_IS=1 "$python" "$work/damage.py" "\$DAMAGE" || exit 9
[ -z "\$AWAY" ] || mv "$work/ds/part-00000" "$work/ds/part-00001" "$work/away/"
status=0
diff -r "$work/source" "$mnt" >"$work/diff" 2>"$work/diff.err" || status=\$?
cat "$work/diff.err" >&2
[ -z "\$AWAY" ] || mv "$work/away/"* "$work/ds/"
exit \$status
END
mkdir "$work/away"
# job STATUS DIRECTORY-TO-DAMAGE OPTION...
job() {
  local want=$1
  export DAMAGE=$2
  shift 2
  rm -rf "$work/local"
  expect_status 0 launch --dataset "$work/ds" "$@" -- true
  [ "$HOW" = replace ] || unleased "$DAMAGE"/*/part-0000[0-9]
  expect_status "$want" launch --dataset "$work/ds" --report "$work/r.json" "$@" -- sh "$work/job.sh"
  leased
}
node0() { json "$work/r.json" "r['nodes'][0]$1"; }
export AWAY='' HOW=''
one=$work/local/fanstore
both=$work/local/fanstore-node0

say "one node, shared copy"
job 0 "$one" --verify always
damaged=$(node0 "['checksum_errors']")
[ "$damaged" -gt 60 ] || fail "$damaged damaged blocks were found"
equal "errors" 0 "$(node0 "['errors']")"
equal "lines about it" 2 "$(grep -c 'the staged partition is damaged' "$work/err")"

say "the same, not looked at"
job 1 "$one" --verify remote
grep -q 'differ$' "$work/diff" || fail "diff says nothing of different files: $(cat "$work/diff")"
equal "damage seen" 0 "$(node0 "['checksum_errors']")"
FANSTORE_VERIFY=always job 0 "$one"

say "another file by that name, and one that was written to"
for HOW in replace write; do
  job 0 "$one" --verify remote
  equal "lines about it" 2 "$(grep -c 'the staged partition was replaced or written to' "$work/err")"
  equal "read locally" 0 "$(node0 "['blocks_local']")"
done
HOW=

say "an index that was written to"
rm -rf "$work/local"
expect_status 0 launch --dataset "$work/ds" -- true
unleased "$one"/*/index
# shellcheck disable=SC2016
expect_status 0 launch --dataset "$work/ds" -- sh -c 'dd if=/dev/zero of="$0" bs=1 seek=500 count=3000 conv=notrunc 2>/dev/null && diff -r "$1" "$2"' \
  "$(echo "$one"/*/index)" "$work/source" "$mnt"
leased
equal "lines about it" 1 "$(grep -c '/index: the staged index is damaged, or was written to' "$work/err")"

say "two nodes, a replica on the other"
job 0 "$both" --emulate 2 --replicas 2 --verify always
equal "from the shared copy" 0 "$(node0 "['blocks_shared']")"
[ "$(node0 "['checksum_errors']")" -gt 60 ] || fail "no damage was found"

say "two nodes, the other one's disk"
job 0 "$work/local/fanstore-node1" --emulate 2 --verify remote
[ "$(node0 "['checksum_errors']")" -gt 30 ] || fail "no damage was found"
equal "errors" 0 "$(node0 "['errors']")"

say "nothing left: errors, no wrong bytes"
AWAY=1 job 2 "$one" --verify always
grep -q 'Input/output error' "$work/diff.err" || fail "no error: $(cat "$work/diff.err")"
! grep -q 'differ$' "$work/diff" || fail "wrong bytes: $(cat "$work/diff")"
grep -q 'cannot be read' "$work/err" || fail "no line about the file: $(cat "$work/err")"

say "wrong words"
expect_status 2 launch --dataset "$work/ds" --verify sometimes -- true
one_line "$work/err" "^fs-launch: --verify sometimes: give always, remote or never$"
FANSTORE_VERIFY=x expect_status 2 launch --dataset "$work/ds" -- true
