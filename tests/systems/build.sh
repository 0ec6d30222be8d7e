#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1500
# long: 120
# FanStore builds on an older and on a newer Debian, without warnings. What is built there runs
# there: the library alone, and a job of two emulated nodes, by Open MPI 4.1 and 5. On the newer one
# every process of a job is killed in turn. The stand-ins for what its libc lacks work. The library needs no symbol newer than glibc 2.17 there
# either, and the programs of this machine load it.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/functions.bash"
need_systems
need_command git objdump

# The newer compiler shows its warnings with the usual optimisation. The older one takes half of the time with less.
build() { # SUITE ROOT TREE
  local optimised=-O2
  [ "$1" != bullseye ] || optimised=-O1
  mkdir -p "$3" "$2/ccache"
  git -C "$root" ls-files -z | tar -C "$root" -c --null -T - -f - | tar -x -C "$3" -f -
  enter "$2" /usr/bin/env CCACHE_DIR=/ccache CCACHE_NOHASHDIR=1 OMPI_CC='ccache gcc' \
    make -s -C "$3" -j"$(nproc)" CC='ccache gcc' CFLAGS=$optimised WERROR=1 all \
    build/tests/unit/test_preload_older >"$work/make" 2>&1 || {
    tail -n 30 "$work/make"
    fail "$1: make"
  }
  enter "$2" env -C / "$3/build/tests/unit/test_preload_older" >"$work/unit" 2>&1 || {
    tail "$work/unit"
    fail "$1: stand-ins"
  }
  say "$1: built with $(enter "$2" gcc --version | head -n 1)"
  FS_BUILD=$3/build "$root/tests/lint/symbols.sh" || fail "$1: the library's symbols"
}

# The UCX of Debian 11 (1.10) does not use loopback, so Open MPI goes without.
job() { # SUITE ROOT TREE
  local pml=ucx
  [ "$1" != bullseye ] || pml=ob1
  enter "$2" /usr/bin/env FANSTORE_RUN_BASE="$TMPDIR" TMPDIR="$TMPDIR" FANSTORE_PML=$pml \
    "$3/build/bin/fs-launch" --dataset "$work/ds" --local-dir "$work/local" --emulate 2 \
    --read-only -- bash "$here/programs.bash" "$mnt" "$TMPDIR/scratch" "$here/programs.py" \
    >"$work/job" 2>"$work/job.err" || {
    tail "$work/job.err"
    fail "$1: a job"
  }
  compared "$1, a job of what is built there" "$work/expected" "$work/job"
  echo "ok - $1: a job of two emulated nodes, by $(enter "$2" mpirun --version | head -n 1)"
}

own_tests() { # SUITE ROOT TREE
  enter "$2" /usr/bin/env -u FS_TEST_ID -u FS_BUILD TMPDIR="$TMPDIR" "$3/tests/run.sh" -t 200 \
    "$3/tests/fault/kill.sh" "$3/tests/mpi/live.sh" >"$work/tests" 2>&1 || {
    cat "$work/tests"
    fail "$1: its own tests"
  }
  echo "ok - $1: each process of a job is killed, and daemons' lines arrive whole"
}

root_of() { # SUITE
  system_root "$1" gcc libc6-dev make libopenmpi-dev openmpi-bin liblz4-dev libzstd-dev libxxhash-dev libarchive-dev \
    libcmocka-dev ccache
}
one_system() { # SUITE
  local suite=$1 system tree=$work/$1 library=$work/$1/build/lib/libfanstore.so
  system=$(root_of "$suite")
  systems_source "$work/source"
  build "$suite" "$system" "$tree"
  programs "$system" "$work/source" >"$work/expected" || fail "$suite: the plain directory"

  rm -rf "$work/ds" "$work/local"
  enter "$system" "$tree/build/bin/fs-prepare" pack "$work/source" "$work/ds" --partitions 3 \
    --mount "$mnt" >"$work/pack"
  local alone=(LD_PRELOAD="$library" FANSTORE_DATASET="$work/ds" FANSTORE_MOUNT="$mnt")
  programs "$system" "$mnt" "${alone[@]}" >"$work/alone" ||
    say "$suite, the library that is built there: the programs fail"
  compared "$suite, the library that is built there" "$work/expected" "$work/alone"
  equal "$suite: its library in a program of this machine" "$(md5sum <"$work/source/d/big")" \
    "$(env "${alone[@]}" cat "$mnt/d/big" | md5sum)"
  echo "ok - $suite: builds, and its library works there and here"
  job "$suite" "$system" "$tree"
  [ "$suite" != trixie ] || own_tests "$suite" "$system" "$tree"
  rm -rf "$tree"
}
# Both at once: this is by far the longest of the tests that .ci/run has beside it.
for suite in $(systems); do root_of "$suite" >/dev/null; done
# shellcheck disable=SC2046 # words
side_by_side one_system $(systems)
