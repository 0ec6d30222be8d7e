#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 900
# long: 60
# The library that was built here, loaded by the programs of an older and of a newer Debian: they
# print on the mount what they print on the plain directory. First without daemons, then in a job
# whose daemon runs here, then with outputs. FS_SYSTEMS_PACKAGES=python3-torch adds a
# DataLoader.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/functions.bash"
need_systems
need_command git

systems_source "$work/source"
pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"
export -f enter programs
export root build TMPDIR work here

outputs() { # SUITE ROOT
  mkdir "$work/out.$1"
  cat >"$work/write.sh" <<END
set -e
mkdir $mnt/new
cp $mnt/a.txt $mnt/new/copy
echo more >>$mnt/new/copy
mv $mnt/new/copy $mnt/new/b
python3 -c 'import os
with open("$mnt/new/c", "w") as f: f.write("text")
os.truncate("$mnt/new/c", 2)'
END
  # shellcheck disable=SC2016 # expanded by the job's shell
  launch --dataset "$work/ds" --stage-out "$work/out.$1" -- bash -c 'enter "$@"' job "$2" \
    bash "$work/write.sh" || fail "$1: the job that writes"
  equal "$1: outputs" "$({ cat "$work/source/a.txt" && echo more; } | md5sum) te" \
    "$(md5sum <"$work/out.$1/new/b") $(cat "$work/out.$1/new/c")"
}

one_system() { # SUITE
  local suite=$1 system packages
  read -r -a packages <<<"${FS_SYSTEMS_PACKAGES-}"
  system=$(system_root "$suite" "${packages[@]}")
  say "$suite: $(enter "$system" ldd --version | head -n 1)"
  programs "$system" "$work/source" >"$work/expected" || {
    tail -n 5 "$work/expected"
    fail "$suite: the plain directory"
  }
  expect_status 2 enter "$system" ls "$mnt"

  programs "$system" "$mnt" LD_PRELOAD="$lib" FANSTORE_DATASET="$work/ds" FANSTORE_MOUNT="$mnt" \
    >"$work/alone" || say "$suite, the library alone: the programs fail"
  compared "$suite, the library alone" "$work/expected" "$work/alone"

  # shellcheck disable=SC2016 # expanded by the job's shell
  launch --dataset "$work/ds" --read-only --report "$work/report.json" -- \
    bash -c 'programs "$@"' job "$system" "$mnt" >"$work/job" 2>"$work/job.err" || {
    tail "$work/job.err"
    fail "$suite: the job"
  }
  compared "$suite, in a job" "$work/expected" "$work/job"
  equal "$suite: opens of the daemon's node, and what did without the daemon" "True 0" \
    "$(json "$work/report.json" 'r["nodes"][0]["opens"] > 300') $(
      json "$work/report.json" 'r["nodes"][0]["fallbacks"]')"
  outputs "$suite" "$system"
  say "$suite: $(grep -c '^DataLoader' "$work/expected") DataLoaders"
  echo "ok - $suite: programs with the library alone, in a job, and outputs"
}
for suite in $(systems); do one_system "$suite"; done
