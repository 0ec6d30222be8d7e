#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Ordinary programs of the system on DIRECTORY: programs.bash DIRECTORY SCRATCH PYTHON-SCRIPT
# Run in another root on the plain directory and on its mount, and the output is compared
# (functions.bash). Paths are printed as @. Inode numbers and directories' sizes are the file
# system's own and not printed.
set -uo pipefail
dir=$1 scratch=$2 script=$3
export LC_ALL=C.UTF-8 HOME=$scratch PYTHONDONTWRITEBYTECODE=1
export GIT_CONFIG_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0
mkdir -p "$scratch"
rm -rf "${scratch:?}"/*

redirections() {
  while read -r a b; do echo "$b $a"; done <"$dir/a.txt" | md5sum
  exec 5<"$dir/a.txt"
  read -r x <&5
  echo "$x"
  head -n 1 <&5
  exec 5<&-
}
programs() {
  cd / || exit 1
  echo "== cat" && cat "$dir/a.txt" "$dir/d/big" | md5sum && cat <"$dir/a.txt" | tail -n 2
  echo "== ls" && ls -lR "$dir" | grep -v '^total' | grep -v '^d'
  echo "== stat" && stat -c '%n %s %a %h %Y %F' "$dir/a.txt" "$dir/link"
  stat -L -c %s "$dir/link"
  echo "== find"
  find "$dir" -path '*/.git' -prune -o -type f -size +4k -printf '%p %s %m %T@\n' | sort
  find "$dir/d" -name 'f*' -exec md5sum {} + | sort
  echo "== cp" && cp -a "$dir/d" "$scratch/copy" && cd "$scratch/copy" || return
  find . -type f -printf '%p %m %s %T@ ' -exec md5sum {} \; | sort
  echo "== redirections" && redirections
  echo "== cd" && (cd "$dir/d" && pwd && ls | head -n 2 && md5sum <../a.txt && cd .. && env pwd)
  echo "== grep, tar, sort" && grep -rc 'line 7' "$dir/d" "$dir/a.txt" | sort
  tar cf - --sort=name -C "$dir" d a.txt | tar xOf - | md5sum && sort -r "$dir/a.txt" | head -n 1
  echo "== errors" && cat "$dir/none" "$dir/d" "$dir/a.txt/x"
  echo "== git" && git -C "$dir" log --oneline && git -C "$dir" status --short && git -C "$dir" fsck
  git clone -q "$dir" "$scratch/clone" && git -C "$scratch/clone" ls-files -s
  echo "== nodes" && mknod "$scratch/pipe" p && stat -c %F "$scratch/pipe"
  echo "== python" && python3 "$script" "$dir" "$scratch"
}
programs 2>&1 </dev/null | sed "s#$dir#@#g; s#$scratch#SCRATCH#g"
