#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare: pack and unpack give the tree back, whatever the options; the output does not depend on --jobs.
. "$(dirname "$0")/../functions.sh"

ok() { echo "ok - $*"; }
make_tree "$work/source"
# A tree as deep as PATH_MAX allows, which diff cannot walk; setuid and sticky modes; times before 1970; large twins.
"$python" - "$work/source" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
length = 0
while length + 201 < 4075:
    os.mkdir("d" * 200, dir_fd=fd)
    fd = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
    length += 201
os.write(os.open("l" * (4095 - length), os.O_CREAT | os.O_WRONLY, 0o640, dir_fd=fd), b"deepest")
os.chdir(sys.argv[1])
os.mkdir("special")
block = os.urandom(1 << 20)
for name in ("twin-1", "twin-2"):
    with open("special/" + name, "wb") as f:
        f.write(block + bytes(1 << 20) + block)
with open("special/twin-no", "wb") as f:
    f.write(block + bytes((1 << 20) - 1) + b"x" + block)
os.link("links/relative", "special/hard-symlink", follow_symlinks=False)
open("special/old", "w").close()
os.utime("special/old", ns=(-5_000_000_001, -5_000_000_001))
os.chmod("special/old", 0o6755)
os.mkdir("special/sticky")
os.chmod("special/sticky", 0o1777)
os.mkdir("special/closed")
open("special/closed/file", "w").close()
os.chmod("special/closed", 0o555)
PY
listing() { # DIRECTORY: directories' sizes and link counts are the file system's own affair
  find "$1" \( -type d -printf '%P|d|%m|%T@\0' \) -o -printf '%P|%y|%m|%T@|%s|%n|%l\0' | sort -z | tr '\0\n' '\n?'
}
sums() { (cd "$1" && find . -type f -execdir md5sum {} + | sort); }
listing "$work/source" >"$work/list.source"
sums "$work/source" >"$work/sums.source"

round_trip() { # OPTION...
  rm -rf "$work"/ds-* "$work"/restored
  for jobs in 1 2 4; do
    pack "$work/source" "$work/ds-$jobs" --jobs $jobs "$@"
  done
  diff -r "$work/ds-1" "$work/ds-2" || fail "the output depends on --jobs: $*"
  diff -r "$work/ds-1" "$work/ds-4" || fail "the output depends on --jobs: $*"
  expect_status 0 "$bin/fs-prepare" verify "$work/ds-1"
  grep -q good "$work/out" || fail "verify does not say good"
  expect_status 0 "$bin/fs-prepare" unpack --setuid "$work/ds-1" "$work/restored"
  listing "$work/restored" >"$work/list.restored"
  diff "$work/list.source" "$work/list.restored" | head -n 20
  cmp "$work/list.source" "$work/list.restored" || fail "names or attributes differ: $*"
  sums "$work/restored" | cmp - "$work/sums.source" || fail "contents differ: $*"
  diff -r --no-dereference --exclude='dddd*' "$work/source" "$work/restored" || fail "diff: $*"
  ok "round trip, same output for 1, 2 and 4 jobs: ${*:-defaults}"
}
round_trip

# Whoever made the dataset: what is unpacked has the rights of the caller, who did not ask for them.
rm -rf "$work/restored"
expect_status 0 "$bin/fs-prepare" unpack "$work/ds-1" "$work/restored"
one_line "$work/err" "^fs-prepare: set-user-ID and set-group-ID bits of 1 file were left out \(--setuid restores them\)$"
equal "mode of a set-user-ID file" 755 "$(stat -c %a "$work/restored/special/old")"
equal "of a sticky directory" 1777 "$(stat -c %a "$work/restored/special/sticky")"
ok "unpack leaves out set-user-ID bits"
info() { "$bin/fs-prepare" info --json "$work/ds-1" >"$work/info.json" && json "$work/info.json" "$1"; }
equal "twins of 3 MiB are stored once" True "$(info '3 * 2**20 < r["stored_bytes"] < r["plain_bytes"] - 3 * 2**20')"
equal "files" "$(find "$work/source" -type f -printf x | wc -c)" "$(info 'r["files"]')"
equal "directories" "$(find "$work/source" -type d -printf x | wc -c)" "$(info 'r["dirs"]')"
equal "symlinks" "$(find "$work/source" -type l -printf x | wc -c)" "$(info 'r["symlinks"]')"
equal "mount" "$work/source" "$(info 'r["mount"]')"
equal "sizes of partitions" True "$(info 'all(p["size"] % 4096 == 0 for p in r["partitions"])')"
equal "partitions" 8 "$(info 'len(r["partitions"])')"
equal "list -0" "$(cd "$work/source" && find . -mindepth 1 -printf '%P\0' | sort -z | md5sum)" \
  "$("$bin/fs-prepare" list -0 "$work/ds-1" | sort -z | md5sum)"
equal "list -l" "$("$bin/fs-prepare" list -0 "$work/ds-1" | tr -dc '\0' | wc -c)" \
  "$("$bin/fs-prepare" list -l -0 "$work/ds-1" | tr -dc '\0' | wc -c)"
ok "info and list tell what was packed"

round_trip --codec raw --align 64K --partitions 1
equal "raw files that can be mapped" "$(find "$work/source" -type f -size +16383c -printf x | wc -c)" "$(info 'r["aligned_files"]')"
equal "alignment" True "$(info 'r["align"] == 65536 and r["partitions"][0]["size"] % 65536 == 0')"
round_trip --codec lz4 --block-size 16K --partitions 3
equal "balance" True "$(info 'max(p["size"] for p in r["partitions"]) < 1.1 * min(p["size"] for p in r["partitions"])')"
round_trip --codec lz4hc:12 --block-size 1M --partitions 40

rm -rf "$work"/ds-*
pack "$work/source" "$work/ds-1" --replicate 'train/class1' --replicate '*-4096.bin' --exclude 'class2' --exclude 'odd*/'
equal "replicated partitions" "[8]" "$(info '[i for i, p in enumerate(r["partitions"]) if p["replicate"]]')"
equal "what is replicated" True "$(info 'r["partitions"][8]["size"] > 40 * 4000')"
"$bin/fs-prepare" list "$work/ds-1" >"$work/list"
grep -q 'train/class1/' "$work/list" || fail "class1 is not there"
! grep -qE '^odd|class2' "$work/list" || fail "--exclude had no effect"
ok "--replicate and --exclude"
chmod -R u+rwX "$work"
