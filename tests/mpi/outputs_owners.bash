# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Root restores trees whose files, directories and symlinks are others': bash outputs_owners.bash MOUNT SCRATCH PYTHON.
set -euo pipefail
mnt=$1 scratch=$2 python=$3
umask 022
mkdir "$scratch/tree" "$scratch/tree/closed"
echo text >"$scratch/tree/file" && echo text >"$scratch/tree/closed/script" && ln -s file "$scratch/tree/link"
chmod 640 "$scratch/tree/file" && chmod 755 "$scratch/tree/closed/script" && chmod 2710 "$scratch/tree/closed"
chown -hR 1234:2345 "$scratch/tree"
tar cf "$scratch/tree.tar" -C "$scratch" tree
modes() { (cd "$1" && find . -printf '%P %y %m %l\n' | sort); }
modes "$scratch/tree" >"$scratch/wanted"
for node in $(seq 0 $((${4:-1} - 1))); do
  export FANSTORE_NODE=$node
  on=$mnt/owners$node
  mkdir "$on" "$on/tar" "$on/python"
  tar xf "$scratch/tree.tar" -C "$on/tar"
  cp -a "$scratch/tree" "$on/cp"
  "$python" -c 'import sys, tarfile; t = tarfile.open(sys.argv[1]); t.errorlevel = 2; t.extractall(sys.argv[2])' \
    "$scratch/tree.tar" "$on/python"
  copies=("$on/tar/tree" "$on/cp" "$on/python/tree")
  if command -v rsync >/dev/null; then rsync -a "$scratch/tree/" "$on/rsync" && copies+=("$on/rsync"); fi
  for reader in $(seq 0 $((${4:-1} - 1))); do
    for copy in "${copies[@]}"; do
      FANSTORE_NODE=$reader modes "$copy" | diff "$scratch/wanted" - || { echo "FAILED: $copy, node $reader"; exit 1; }
    done
  done
  chown 7:7 "$on" "$on/tar/tree/file" && chown -h 7:7 "$on/cp/link" && chgrp -R 8 "$on/python"
  for other in $(seq 0 $((${4:-1} - 1))); do FANSTORE_NODE=$other chown -hR 9:9 "$on"; done
done
rm -r "$scratch/tree" "$scratch/tree.tar"
echo "ok - tar, cp -a, rsync -a, tarfile and chown by root"
