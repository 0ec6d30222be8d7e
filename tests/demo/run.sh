#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `make demo`: draws some thousand JPEG images, packs them, trains a small network on them with two processes, first from
# the plain directory, then through FanStore on two emulated nodes, and shows that the losses are the same to the last
# bit, what a read cost, and where it came from. Everything is below build/demo; the pictures of an earlier run are used
# again. With --quick there are fewer. Fails when the losses differ or when nothing came from the other node.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
unset LD_PRELOAD "${!FANSTORE_@}"
demo=$PWD/build/demo
python=/usr/bin/python3
train=$PWD/tests/demo/train.py
epochs=3 images=2400
[ "${1-}" != --quick ] || images=600
mkdir -p "$demo"
exec 9>"$demo/lock"
flock -n 9 || { echo "another demo is running in $demo" >&2; exit 1; }
mount=$demo/nowhere # a path where no directory is: what is read there comes from FanStore
rm -rf "$demo/dataset" "$demo/local" "$demo/nowhere" "$demo/report.html" "$demo"/plain.* "$demo"/mount.*
# What is left at the end is the pictures and the results.
trap 'rm -rf "$demo/dataset" "$demo/local" "$demo"/*.meet' EXIT

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || step() { printf '\n%s\n' "$*"; }
# Shows the command so that it runs when it is copied: our programs by relative paths, the mount as it is.
show() {
  local word
  printf '  $'
  for word in "$@"; do
    [[ $word = "$mount" ]] || word=${word//$PWD\//}
    printf ' %q' "$word"
  done
  echo
  "$@"
}

if [ "$(cat "$demo/images/complete" 2>/dev/null)" != $images ]; then
  step "Drawing images"
  rm -rf "$demo/images"
  "$python" tests/demo/images.py "$demo/images" $images $((images / 8)) | sed 's/^/  /'
  echo $images >"$demo/images/complete"
fi

step "Packing them (JPEG is compressed already, so the images are stored as they are)"
show build/bin/fs-prepare pack --force --mount "$mount" --exclude complete "$demo/images" "$demo/dataset"

step "Training from the plain directory: two processes, each with two DataLoader workers"
as_root=()
[ "$(id -u)" != 0 ] || as_root=(--allow-run-as-root)
show mpirun "${as_root[@]}" --oversubscribe --bind-to none -np 2 "$python" "$train" "$demo/images" $epochs "$demo/plain"

step "The same program on two emulated nodes, each with half of the data; no directory is at the mount, build/demo/nowhere"
show build/bin/fs-launch --dataset "$demo/dataset" --local-dir "$demo/local" --emulate 2 --np 2 \
  --report "$demo/report.html" -- "$python" "$train" "$mount" $epochs "$demo/mount"

step "What happened"
"$python" tests/demo/show.py "$demo"
printf '\n  The report of the job, a page for a browser: %s\n' "${demo#"$PWD"/}/report.html"
