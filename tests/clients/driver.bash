# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Runs the cases of a group, one after another, and keeps what each says and leaves: driver.bash WORK RESULT. Started by
# harness.bash in the place where the dataset's directory is what it shall be. FS_CLIENTS_PREFIX goes before each case.
set -u
work=$1 result=$2
scratch=$work/scratch
started=$EPOCHREALTIME # what came before is seconds older
mkdir -p "$result"
exec 3>&- 4>&- 5>&-
export W=$scratch/here HOME=$scratch/home TMPDIR=$scratch/tmp

clean() {
  rm -rf "$scratch" 2>/dev/null || { chmod -R u+rwX "$scratch" && rm -rf "$scratch"; }
}
# What is below the current directory, sorted: kind, mode, owner, time, size, number of links, target, name; and the sums.
# Sizes and link counts of directories are their file system's own. A time not before this run's start is "new".
leavings() {
  env -u LD_PRELOAD find . -mindepth 1 \( -type d -printf '%y|%m|%U|%G|%T@||||%P\0' \) -o \
    -printf '%y|%m|%U|%G|%T@|%s|%n|%l|%P\0' | tr '\0\n' '\n?' |
    awk -F'|' -v OFS='|' -v started="$started" '$5 + 0.01 >= started { $5 = "new" } { print }' | LC_ALL=C sort -t'|' -k9
  env -u LD_PRELOAD find . -type f -exec md5sum {} + | LC_ALL=C sort -k2
}

for script in "$work"/cases/*; do
  name=${script##*/}
  clean
  mkdir -p "$W" "$HOME" "$TMPDIR"
  cd "$W" || exit 2
  begin=${EPOCHREALTIME/./}
  # shellcheck disable=SC2086
  timeout -k 5 "${FS_CLIENTS_SECONDS:-120}" ${FS_CLIENTS_PREFIX:-} bash "$script" \
    >"$result/$name.out" 2>"$result/$name.err" </dev/null
  echo $? >"$result/$name.status"
  echo $(((${EPOCHREALTIME/./} - begin) / 1000)) >"$result/$name.ms"
  left=$(compgen -G "$W/*" || compgen -G "$W/.[!.]*" || compgen -G "$TMPDIR/*" || compgen -G "$TMPDIR/.[!.]*")
  if [ -n "$left" ]; then
    (cd "$scratch" && rm -rf "$HOME" && leavings) >"$result/$name.files" 2>&1
  else
    : >"$result/$name.files"
  fi
done
cd / && clean
