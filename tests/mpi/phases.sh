#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 25
# rest: bench/ior.sh
# bench/mdtest.sh and bench/ior.sh: options that are wrong have one line, all rows have figures on all sides, and a case
# that fails is told with its reason.
. "$(dirname "$0")/../functions.sh"
cd "$work"
mkdir a b
plain=(--plain-dir "$work/a" --plain-dir "$work/b")

refused() { # PATTERN OPTION...
  expect_status 2 "$root/bench/mdtest.sh" --own --quick "${@:2}"
  equal "output" 0 "$(wc -c <out)"
  one_line err "^mdtest.sh: $1"
}
refused 'no such option: --dir ' --dir "$work/a"
refused '--plain-dir needs a value' --plain-dir
refused '--local-dir needs a value' --local-dir ''
refused '--plain-dir .*/none: no directory that can be written' --plain-dir "$work/none"
refused '--plain-dir .*/a/f: no directory' --plain-dir "$(touch a/f && echo "$work/a/f")"
refused '--local-dir .*/none: no directory that can be written$' "${plain[@]}" --local-dir "$work/none"
refused '--nodes 2,x: numbers' --nodes 2,x
refused '--nodes 0: numbers' --nodes 0
refused '--nodes 65: numbers' --nodes 65
refused '--nodes 1,3: there are 2 hosts' --nodes 1,3 --hosts h1,h2 --local-dir "$work/b"
refused '--hosts a,,b: names' --hosts a,,b
refused '--hosts a,b,a: a host is named twice' --hosts a,b,a
refused 'several hosts need --local-dir' --hosts a,b
refused '--np 0: no number' --np 0
refused '--rounds x: no number' --rounds x
refused '--size -1: no number' --size -1
refused '--only nothing: no case' "${plain[@]}" --nodes 1 --only nothing
SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=2 SLURM_PROCID=1 refused 'this is task 1 of a job step'
SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=2 refused 'scontrol does not tell'
OMPI_MCA_plm_rsh_agent=false refused 'no answer from the hosts: ' "${plain[@]}" --hosts nowhere --local-dir "$work/b"
rm a/f
equal "left" "" "$(find a b -mindepth 1)"
echo "ok - wrong options"

rows() { # OF: whose rows there are, and that each has as many figures
  grep -E "^\| $1 \|.*: .*( \| [0-9.]+){5} \|$" out || fail "no rows of the $1: $(cat out err)"
}
declare -A only=([mdtest]='4 KiB' [ior]='random 4 KiB')
for script in $(half mdtest ior); do
  expect_status 0 "$root/bench/$script.sh" --own --quick --size 4 "${plain[@]}" --nodes 1,2 --only "${only[$script]}"
  rows dataset >shown
  grep -q 'second read' shown || fail "no second read: $(cat shown)"
  rows outputs >shown
  equal "cells without a figure" 0 "$(grep -c '| - ' out || :)"
  grep -q "^$work/b: $work/b" out || fail "the second plain directory is not told: $(cat out)"
done
equal "left" "" "$(find a b -mindepth 1)"
echo "ok - rows of the dataset and of outputs"
! rest || exit 0

printf '#!/bin/sh\necho "ERROR: it does not work"\nexit 3\n' >mdtest
chmod +x mdtest
PATH=$work:$PATH expect_status 1 "$root/bench/mdtest.sh" --quick --size 4 "${plain[@]}" --nodes 1 --only "4 KiB"
grep -q "^failed on .*, 1 node: outputs, others' (-N), 4 KiB: ERROR: it does not work (status 3)" out || fail "$(cat out)"
grep -q '^| dataset | own files, 4 KiB: file first read | [0-9]' out || fail "$(cat out)"
grep -q '^rows of the dataset: mdphases' out || fail "$(cat out)"
PATH=$work:$PATH expect_status 0 "$root/bench/mdtest.sh" --quick --size 4 --partial "${plain[@]}" --nodes 1 --only "4 KiB"
echo "ok - a case that fails: $(grep '^failed' out)"
