#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# --stage-out to a file system that gives the inode of a replaced file to the next one (ext4 with a journal): the copies of a
# checkpoint that is saved again and again are as large as each other, and so told apart by their inodes alone. What a
# program has under a name at its end is there under that name, and nothing else.
if [ -z "${INODES_SH_MOUNTS:-}" ] && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
  exec env INODES_SH_MOUNTS=1 unshare -m "$0"
fi
. "$(dirname "$0")/../functions.sh"
need_command mke2fs
random_files "$work/source" 2 1 1000
pack "$work/source" "$work/ds" --partitions 1 --mount "$mnt"
out=$work/durable
mkdir "$out"
truncate -s 64M "$work/ext4"
mke2fs -q -t ext4 -O has_journal -J size=8 "$work/ext4"
mount -o loop "$work/ext4" "$out" 2>/dev/null || skip "no file system can be mounted here (loop devices)"
# shellcheck disable=SC2154 # where the script is run by hand
trap 'umount "$out" 2>/dev/null; rm -rf "${own_directory:-/nonexistent}"' EXIT

cat >"$work/saves.py" <<'END'
import os, shutil, subprocess, sys, time
kind, below, out = sys.argv[1:]
d, copies = below + "/" + kind, out + "/" + kind
os.makedirs(d, exist_ok=True)
names = {"latest": ["latest"], "rotated": ["latest", "prev", "prev2"]}[kind]

def have(path):
    try:
        return open(path, "rb").read(8)
    except FileNotFoundError:
        return None

for i in range(5):
    with open(d + "/tmp", "wb") as f:
        f.write(b"%08d" % i * 4096)
    os.utime(d + "/tmp", ns=(10**18, 10**18))
    for old, new in reversed(list(zip(names, names[1:]))):
        if os.path.exists(d + "/" + old):
            os.rename(d + "/" + old, d + "/" + new)
    os.rename(d + "/tmp", d + "/" + names[0])
    for _ in range(300):
        if have(copies + "/" + names[0]) == b"%08d" % i:
            break
        time.sleep(0.1)
    else:
        sys.exit("save %d is not staged out after 30 s" % i)
print(" ".join("%s=%s" % (n, have(d + "/" + n).decode()) for n in names))
END
for kind in latest rotated; do
  TMPDIR=$work expect_status 0 "$bin/fs-launch" --local-dir "$work/local-$kind" --dataset "$work/ds" --emulate 1 --stage-out "$out" -- \
    "$python" "$work/saves.py" "$kind" "$mnt" "$out"
  want=$(cat "$work/out")
  got=$(for file in "$out/$kind"/*; do printf '%s=%s ' "${file##*/}" "$(head -c 8 "$file")"; done)
  equal "$kind" "$(tr ' ' '\n' <<<"$want" | sort | xargs)" "$(tr ' ' '\n' <<<"$got" | sort | xargs)"
  echo "ok - $kind: $want"
done
