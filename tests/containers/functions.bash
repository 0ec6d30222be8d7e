# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of containers share. Sourced after ../functions.sh. Images are made of the roots
# that tests/setup/system_root.sh makes and keeps, never pulled. Each test defines
#     contained OPTIONS COMMAND...
# which runs COMMAND in a container. OPTIONS is one word: what fs-launch env --container has
# printed. The array `from` is the image.
. "$root/tests/systems/functions.bash"
here=$root/tests/containers
job='' out=$work/out.d from=()

# When the test ends, it ends its job, and then calls `undo` if the test defines it.
containers_end() {
  [ -z "$job" ] || "$bin/fs-launch" stop "$job" >/dev/null 2>&1 || :
  ! declare -F undo >/dev/null || undo
  [ -z "${own_directory-}" ] || rm -rf "$own_directory"
}
trap containers_end EXIT

# image ROOT: writes a tar of python3, a few commands, and the libraries that they need
image() (
  cd "$1"
  programs=(/usr/bin/python3 /bin/sh /usr/bin/env /usr/bin/sleep /usr/bin/true)
  mapfile -t modules < <(compgen -G 'usr/lib/python3*/lib-dynload/*.so')
  mapfile -t libraries < <(chroot . ldd "${programs[@]}" "${modules[@]/#//}" |
    sed -nE 's/^\s(.* => )?(\/[^ ]*) \(.*/\2/p' | sort -u)
  libraries+=("${libraries[0]%/*}/libdl.so.2") # for libfanstore.so
  for f in bin sbin lib lib64 etc tmp proc sys dev root home usr/lib/python3*; do
    [ ! -e "$f" ] || echo "$f"
  done >"$work/tops"
  # Both a link and what it leads to.
  printf '%s\n' "${programs[@]}" "${libraries[@]}" | sed -E 's#^/(usr/)?#usr/#' >"$work/files"
  chroot . realpath "${programs[@]}" "${libraries[@]}" | sed 's#^/##' >>"$work/files"
  sort -u "$work/tops" "$work/files" | tar -c --exclude=__pycache__ -T -
)
# A dataset of two partitions: with two nodes each has half of it.
containers_dataset() {
  random_files "$work/source" 40 4 0 1 4096 70000 300000
  pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"
  "$python" "$here/inside.py" sums "$work/source" >"$work/expected"
  mkdir "$out"
}
f() { "$bin/fs-launch" "$@"; }
begin_job() {
  rm -f "$work/report.json"
  job=$(launch --daemon --emulate 2 --dataset "$work/ds" --stage-out "$out" --report "$work/report.json") ||
    fail "fs-launch --daemon"
}
end_job() {
  f stop "$job" >"$work/stop" 2>&1 || {
    cat "$work/stop" >&2
    fail "fs-launch stop"
  }
  job=''
}

# unbound PATH OPTIONS: prints the options without the binds whose paths begin with PATH
unbound() { printf ' %s\n' "$2" | sed "s# -v $1[^ ]*##g"; }

# reads WHAT OPTIONS: a container reads all files, as the source has them, and writes an output
reads() {
  contained "$2" python3 - sums "$mnt" "$mnt/new/$1" <"$here/inside.py" >"$work/sums" 2>"$work/err" || {
    cat "$work/err" >&2
    fail "$1: the program in the container"
  }
  diff "$work/expected" "$work/sums" >&2 || fail "$1: other bytes than in the source"
  [ ! -s "$work/err" ] || fail "$1: $(cat "$work/err")"
}
# kept WHAT: its output is in the stage-out directory
kept() {
  grep -q "^written in a container by .* glibc 2\.[0-9]*, user [0-9]*, process [0-9]*$" "$out/new/$1" ||
    fail "$1: the output is not kept"
  say "$1: $(cat "$out/new/$1")"
}
# Both nodes served, nothing came from the shared copy, and no program did without its daemon.
served_by_daemons() {
  equal "remote reads, and what did without the daemon" "True 0" \
    "$(json "$work/report.json" 'r["nodes"][0]["bytes_remote"] > 0 and r["nodes"][0]["bytes_shared"] == 0') $(
      json "$work/report.json" 'sum(n["fallbacks"] for n in r["nodes"])')"
}

# pid_of WORD: the process here that has this word in its command line, as its last one
pid_of() {
  local p
  for p in /proc/[0-9]*; do
    [ "$(tr '\0' '\n' <"$p/cmdline" 2>/dev/null | tail -n 1)" = "$1" ] || continue
    case $(cat "$p/comm" 2>/dev/null) in python3*) echo "${p#/proc/}" ;; esac
  done 2>/dev/null
  return 0
}
locked() { # NODE FILE...: prints for each file whether a program of the node can lock it
  local node=$1
  shift
  f attach "$job" --node "$node" -- "$python" "$here/inside.py" try "$@"
}
unlocked() { [ "$(locked 0 "$@") $(locked 1 "$@")" = "free free free free" ]; }
# dies WHAT OPTIONS: a container's program that has locks and an open output is killed
dies() {
  local files=("$mnt/$1.flock" "$mnt/$1.fcntl") token="holder-$1-$$" pid holder
  : >"$work/hold" # not the one of an earlier container
  contained "$2" python3 - hold "${files[@]}" "$token" <"$here/inside.py" >"$work/hold" 2>&1 &
  holder=$!
  wait_until 60 grep -qs '^locked' "$work/hold"
  equal "$1: locks that a container has, from both nodes" "held held held held" \
    "$(locked 0 "${files[@]}") $(locked 1 "${files[@]}")"
  pid=$(pid_of "$token")
  [[ $pid = *[0-9]* ]] || fail "$1: no process of the container here"
  # shellcheck disable=SC2086 # the holder, and a child that has its descriptors
  kill -KILL $pid
  wait "$holder" && fail "$1: the container does not end with its program"
  wait_until 30 unlocked "${files[@]}"
  equal "$1: what was written before" "half" "$(f attach "$job" cat "$mnt/$1.flock")"
}

# by_command KIND RUN...: a job whose COMMAND runs a container of the image "${from[@]}"
by_command() {
  local status=0
  rm -f "$work/report.json"
  # shellcheck disable=SC2016 # expanded by the job's shell
  launch --emulate 2 --dataset "$work/ds" --stage-out "$out" --report "$work/report.json" -- bash -c '
    launch=$1 kind=$2 mnt=$3 from=("${@:5:$4}")
    shift $((4 + $4))
    "$@" $("$launch" env --container "$kind") "${from[@]}" \
      python3 - sums "$mnt" "$mnt/new/command" && exit 7' job "$bin/fs-launch" "$1" "$mnt" \
    ${#from[@]} "${from[@]}" "${@:2}" <"$here/inside.py" >"$work/sums" 2>"$work/err" || status=$?
  [ $status = 7 ] || {
    cat "$work/err" >&2
    fail "$1 run as COMMAND: status $status"
  }
  diff "$work/expected" "$work/sums" >&2 || fail "$1 run as COMMAND: other bytes"
  kept command
  served_by_daemons
}
