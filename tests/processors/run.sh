#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds the library, the tools and the unit tests for aarch64 and ppc64le, and runs tests under
# qemu-user: run.sh [short]. FS_PROCESSORS names other processors. Called by `make
# check-processors`. The short form builds with less optimisation, and runs a few tests.
# not_run.txt says which tests are left out, and why.
set -euo pipefail
cd "$(dirname "$0")/../.."
short=${1:-}
export LC_ALL=C.UTF-8
packages=(libc6-dev liblz4-dev libzstd-dev libxxhash-dev libarchive-dev libcmocka-dev libaio-dev liburing-dev libc-bin bash
  coreutils diffutils findutils grep sed mawk tar gzip util-linux procps python3 attr)
scripts=(posix/{golden,interposer_calls,mapped_alone,cwd,fd_replaced,outside,outside_walks}
  prepare/{errors,links,write})
large_pages=(posix/{golden,interposer_calls})
quick=(posix/interposer_calls unit/test_{copy,fdtab,files,index,info,launch_elf,manifest,own}
  unit/test_{preload_real,processes,program,vdir})

# The first lack is told as the reason of a test that is skipped.
lack() { tests/run.sh "processors/$1=echo '$2'; exit 77"; exit 0; }
unshare -Urm true 2>/dev/null || lack all 'no user and mount namespaces here'
unshare -Urm mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>/dev/null ||
  lack all 'no binfmt_misc in user namespaces here (Linux 6.7)'

left_out() { grep -q "^$1: " tests/processors/not_run.txt; }
all_units() {
  local test
  for test in tests/unit/test_*.c; do
    test=${test#tests/}
    left_out "${test%.c}" || echo "${test%.c}"
  done
}
one() { # PROCESSOR
  local processor=$1 root out=build/$1${short:+-short} compiler=$1-linux-gnu-gcc status=0 test tests targets=() run=()
  [ "$processor" != ppc64le ] || compiler=powerpc64le-linux-gnu-gcc
  root=$(tests/setup/processor_root.sh "$processor" "${packages[@]}") || {
    [ $? -eq 77 ] || return 1
    tests/run.sh "processors/$processor=echo 'no packages of this processor here'; exit 77"
    return 0
  }
  mapfile -t tests < <(all_units; printf '%s\n' "${scripts[@]}")
  [ -z "$short" ] || tests=("${quick[@]}")
  for test in "${tests[@]}"; do
    case $test in
      unit/*) targets+=("$out/tests/$test") run+=("$PWD/$out/tests/$test") ;;
      *) run+=("tests/$test.sh") ;;
    esac
  done
  make -s --no-print-directory -j"$(nproc)" B="$out" CC="${CCACHE-} $compiler --sysroot=$root" \
    WERROR=1 CFLAGS="$([ -n "$short" ] && echo -O1 || echo -O2 -g)" lib "$out/bin/fs-prepare" \
    "$out/bin/fs-launch" "${targets[@]}" || return 1
  export FS_BUILD=$PWD/$out
  local enter="tests/processors/enter.sh $processor $root"
  FS_LIBC=$root/usr/lib/${compiler%-gcc}/libc.so.6 tests/run.sh -p "$processor/" tests/lint/symbols.sh || status=1
  tests/run.sh -j "$(($(nproc) + 1))" -p "$processor/" -w "$enter" "${run[@]}" || status=1
  [ -n "$short" ] && run=(tests/posix/golden.sh) || run=("${large_pages[@]/#/tests/}") run=("${run[@]/%/.sh}")
  tests/run.sh -j "$(($(nproc) + 1))" -p "$processor-64k-pages/" -w "env QEMU_PAGESIZE=65536 $enter" \
    "${run[@]}" || status=1
  return $status
}

status=0
for processor in ${FS_PROCESSORS:-aarch64 ppc64le}; do one "$processor" || status=1; done
exit $status
