#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 40
# rest: other numbers of nodes
# Files of a dataset that programs replace, change, rename and remove, with --overlay: as in a plain directory, on each
# node; what is open stays; many programs at once; what is staged out and in; and what happens without the option.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

make_source() { # DIR
  "$python" - "$1" <<'END'
import os, sys
top = sys.argv[1]
os.umask(0o022)
os.makedirs(top + "/sub/deep")
def put(name, text):
    with open(f"{top}/{name}", "w") as f: f.write(text)
for i in range(60): put(f"f{i:02}", f"f{i:02} " * (100 * i + 5))
for i in range(40): put(f"h{i:02}", f"h{i:02} " * 2000)
for i in range(30): put(f"u{i:02}", "u")
for n in "vwxyz": put("sub/" + n, f"sub {n} " * 50)
put("sub/deep/a", "deep")
put("text", "".join(f"line {i}\n" for i in range(500)))
put("race", "line\n" * 1000)
put("swap", "old " * 1000)
put("there", "there " * 1000), put("away", "dataset")
put("big", "0123456789abcde\n" * 140000)
put("ro", "read only"), os.chmod(top + "/ro", 0o444)
put("labels.cache", "old cache")
for n, t in ("link", "f13"), ("link2", "f14"), ("link3", "f22"), ("link4", "f00"), ("link5", "sub/deep"), ("dirlink", "sub"):
    os.symlink(t, f"{top}/{n}")
for d, _, files in os.walk(top):
    for n in files: os.utime(f"{d}/{n}", (900000000, 900000000), follow_symlinks=False)
END
}
make_source "$work/source"
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"

# As in a plain directory.
cp -a "$work/source" "$work/plain"
"$python" "$here/overlay.py" ops "$work/plain" 0 >"$work/plain.txt"
for n in $(half 2 3); do
  launch --dataset "$work/ds" --emulate "$n" --overlay --discard -- "$python" "$here/overlay.py" ops "$mnt" "$n" \
    >"$work/mount.txt" 2>"$work/err" || fail "$n nodes: $(tail -n 3 "$work/mount.txt") $(cat "$work/err")"
  cmp -s "$work/plain.txt" "$work/mount.txt" || fail "$n nodes: $(diff "$work/plain.txt" "$work/mount.txt" | head -20)"
  no_leftovers
  echo "ok - $n nodes: as in a plain directory"
done
for n in $(half 2 3); do
  for what in held race directories; do
    seen_on "$n" --overlay -- "$python" "$here/overlay.py" $what "$mnt" "$n"
  done
done
! rest || exit 0

for case in death evicted; do # a busy machine evicts nobody else in 4 s
  launch --dataset "$work/ds" --emulate 3 --overlay --discard --deadline 4000 -- "$python" "$here/overlay.py" $case "$mnt" 3 \
    "$work/local" >"$work/out" 2>"$work/err" || fail "$(cat "$work/out" "$work/err")"
  cat "$work/out"
done

# What is staged out, and what the next job sees of it: replaced files, and nothing of removed ones.
mkdir "$work/to"
# shellcheck disable=SC2016
launch --dataset "$work/ds" --emulate 2 --overlay --stage-out "$work/to" -- bash -c 'cd "$1" && echo new >labels.cache.tmp &&
  mv labels.cache.tmp labels.cache && echo more >>f01 && rm f02 f03 && echo again >f03 && mv f04 sub/f04 && touch -r f06 f05 &&
  echo gone >f07 && rm f07 && rm link && ln -s f00 link' - "$mnt" 2>"$work/err" || fail "$(cat "$work/err")"
equal "staged out" "f01 f03 f05 labels.cache link sub/f04 " \
  "$(cd "$work/to" && find . ! -type d | sed 's|^\./||' | sort | tr '\n' ' ')"
equal "labels.cache" new "$(cat "$work/to/labels.cache")"
cmp <(cat "$work/source/f01" && echo more) "$work/to/f01" || fail "f01 is not whole"
cmp "$work/source/f04" "$work/to/sub/f04" || fail "f04 is not whole"
no_leftovers
echo "ok - staged out"
# shellcheck disable=SC2016
look='cd "$1" && for n in 0 1; do FANSTORE_NODE=$n bash -c "cat labels.cache f03; readlink link; ls f0[1-7]; tail -n 1 f01 | tail -c 5"; done'
old=$(printf '%s\n' "old cache$(cat "$work/source/f03")f13" f01 f02 f03 f04 f05 f06 f07 "$(tail -c 5 "$work/source/f01")")
new=$(printf '%s\n' new again f00 f01 f02 f03 f04 f05 f06 f07 more)
launch --dataset "$work/ds" --emulate 2 --overlay --stage-in "$work/to" --discard -- bash -c "$look" - "$mnt" \
  >"$work/out" 2>"$work/err" || fail "$(cat "$work/out" "$work/err")"
equal "staged in" "$new
$new" "$(cat "$work/out")"
launch --dataset "$work/ds" --emulate 2 --stage-in "$work/to" --discard -- bash -c "$look" - "$mnt" \
  >"$work/out" 2>"$work/err" || fail "$(cat "$work/out" "$work/err")"
equal "without --overlay" "$(printf '%s' "$old" "$old")" "$(cat "$work/out")"
grep -q 'the dataset has 5 of the names' "$work/err" || fail "$(cat "$work/err")"
echo "ok - staged in"

# The source keeps its files: what takes the name of one of them stays on its node.
launch --dataset "$work/ds" --emulate 2 --overlay --keep -- bash -c "echo kept >'$mnt/f00' && rm '$mnt/f01' && rm '$mnt/f10'" \
  2>"$work/err" || fail "$(cat "$work/err")"
equal "kept" kept "$(find "$work/local" -path '*/fanstore-outputs/*/f00' -exec cat {} +)"
equal "nothing else is kept" 1 "$(find "$work/local" -path '*/fanstore-outputs/*' ! -type d | wc -l)"
find "$work/local" -name fanstore-outputs -exec rm -rf {} +
no_leftovers
echo "ok - kept"

# A copy that cannot be made, or whose program dies, leaves the dataset's file and no bytes on the node. So does an open
# with O_EXCL.
# shellcheck disable=SC2016
launch --dataset "$work/ds" --emulate 2 --overlay --discard -- bash -c 'cd "$1"; (ulimit -f 100; echo x >>big)
  stat -c %s big; find "$2" -path "*/out/*" -type f -size +0; "$3" -c "
import ctypes
libc = ctypes.CDLL(None)
libc.fopen.restype = libc.freopen.restype = ctypes.c_void_p
print(libc.freopen(b\"f01\", b\"wx\", ctypes.c_void_p(libc.fopen(b\"/dev/null\", b\"r\"))))"
  stat -c %s f01' - "$mnt" "$work/local" "$python" >"$work/out" 2>"$work/err" || fail "$(cat "$work/out" "$work/err")"
equal "not copied" "2240000 None $(stat -c %s "$work/source/f01") " "$(tr '\n' ' ' <"$work/out")"
grep -q 'File size limit exceeded' "$work/err" || fail "$(cat "$work/err")"
# shellcheck disable=SC2016
launch --dataset "$work/ds" --emulate 2 --overlay --output-limit 2M --discard -- bash -c 'cd "$1"; ! echo x >>big && stat -c %s big' \
  - "$mnt" >"$work/out" 2>"$work/err" || fail "$(cat "$work/out" "$work/err")"
equal "no room" 2240000 "$(cat "$work/out")"
grep -q 'Disk quota exceeded' "$work/err" || fail "$(cat "$work/err")"
no_leftovers
echo "ok - not copied"

# Who may not read a file does not empty it by an open for both.
if [ "$(id -u)" = 0 ]; then
  mkdir "$work/hidden"
  echo "write only" >"$work/hidden/w" && chmod 200 "$work/hidden/w"
  pack "$work/hidden" "$work/ds3" --partitions 1 --mount "$mnt"
  rm -rf "$work/local" && mkdir "$work/local" && chown -R 65534 "$work" "$TMPDIR" && chmod -R a+rX "$work/ds3"
  HOME=$work setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/fs-launch" --local-dir "$work/local" \
    --dataset "$work/ds3" --emulate 2 --overlay --discard -- "$python" -c "
import os, sys
try: os.open(sys.argv[1], os.O_RDWR | os.O_TRUNC)
except OSError as e: print(e.errno, os.stat(sys.argv[1]).st_size)" "$mnt/w" \
    >"$work/out" 2>"$work/err" || fail "$(cat "$work/out" "$work/err")"
  equal "not readable" "13 11" "$(cat "$work/out")"
  chown -R 0 "$work" "$TMPDIR"
  echo "ok - not readable"
fi

# Without the option: EROFS, and one line of each process that tries.
launch --dataset "$work/ds" --emulate 2 --discard -- "$python" - "$mnt" >"$work/out" 2>"$work/err" <<'END' || fail "$(cat "$work/err")"
import errno, os, sys
os.chdir(sys.argv[1])
open("new", "w").close()
for f in (lambda: open("f00", "wb"), lambda: open("f00", "r+"), lambda: os.unlink("f00"), lambda: os.rename("new", "f00"),
          lambda: os.rename("f00", "f00.bak"), lambda: os.truncate("f00", 0), lambda: os.chmod("f00", 0o600),
          lambda: os.utime("f00"), lambda: os.rmdir("sub"), lambda: os.unlink("link")):
    try: print(f())
    except OSError as e: print(errno.errorcode[e.errno], os.access("f00", os.W_OK))
END
equal "without --overlay" "10 EROFS False" "$(sort "$work/out" | uniq -c | sed 's/^ *//')"
equal "lines that name the option" 1 "$(grep -c -e '--overlay' "$work/err")"
grep -q '^fanstore: f00 is a file of the dataset, .* fs-launch --overlay' "$work/err" || fail "$(cat "$work/err")"
launch --dataset "$work/ds" --emulate 2 --discard -- bash -c "rmdir '$mnt/sub'; chmod 500 '$mnt/sub'; mkdir '$mnt/f00'; : >'$mnt/new'" \
  2>"$work/err" || fail "$(cat "$work/err")"
! grep -q -e --overlay "$work/err" || fail "$(cat "$work/err")"
expect_status 2 launch --dataset "$work/ds" --overlay --read-only -- true
one_line "$work/err" '--overlay and --read-only: give one of them'
echo "ok - without the option"
