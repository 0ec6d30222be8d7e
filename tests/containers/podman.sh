#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs in Podman's containers, with the options of fs-launch env --container podman: as root, and
# as an ordinary user, whose user id is 0 in the container or (with keep-id) the same as outside.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/functions.bash"

# Limits: Podman's own are higher than what root has here without CAP_SYS_RESOURCE.
run=(run --rm -i --network none --ulimit nofile=1024:1024 --ulimit nproc=4096:4096)
# podman STORAGE: sets the command. crun refuses both versions of control groups at once.
podman_with() {
  podman=(podman --root "$1/root" --runroot "$1/run" --tmpdir "$1/tmp" --storage-driver overlay
    --cgroup-manager cgroupfs --events-backend file)
  command -v runc >/dev/null && podman+=(--runtime runc)
  export CONTAINERS_CONF=$1/containers.conf # its locks would stay in /dev/shm
  printf '[engine]\nlock_type = "file"\nnum_locks = 64\n' >"$CONTAINERS_CONF"
  return 0
}
contained() {
  local options=$1
  shift
  # shellcheck disable=SC2086 # as users give the options
  "${podman[@]}" "${run[@]}" $options "${from[@]}" "$@"
}
cases() { # IMAGE-FILE
  "${podman[@]}" import "$1" debian >/dev/null 2>"$work/err" || fail "podman import: $(cat "$work/err")"
  from=(debian)
  contained "" python3 -c 1 2>"$work/err" || skip "podman run does not work here: $(tail -n 1 "$work/err")"
  containers_dataset
  begin_job
  local options
  options=$(f env "$job" --container podman)
  reads same-user "$options"
  dies killed "$options"
  if [ "$(id -u)" != 0 ]; then
    reads user-0 "${options/--userns=keep-id/}"
    dies killed-0 "${options/--userns=keep-id/}"
  fi
  end_job
  kept same-user
  [ "$(id -u)" = 0 ] || kept user-0
  [ "$(id -u)" = 0 ] || grep -q 'user 0,' "$out/new/user-0" || fail "not as user 0"
  served_by_daemons
  by_command podman "${podman[@]}" "${run[@]}"
}

if [ "$(id -u)" != 0 ]; then # the second half, started below
  podman_with "$HOME"
  # shellcheck disable=SC2317 # called by functions.bash
  undo() { kill "$(cat "$HOME/tmp/pause.pid")"; } # it holds the user namespace
  cases "$IMAGE"
  exit 0
fi

need_systems
need_command podman conmon
system=$(system_root trixie)
image "$system" >"$work/trixie.tar"

as_user() {
  need_command newuidmap setpriv
  local home=$work/home id=54321
  mkdir "$home"
  cp /etc/passwd /etc/group "$work"
  echo "fanstore-test:x:$id:$id::$home:/bin/sh" >>"$work/passwd"
  echo "fanstore-test:x:$id:" >>"$work/group"
  echo "fanstore-test:600000:65536" >"$work/subid"
  mkdir "$home/tmp" "$home/runtime" "$home/build" "$home/tree"
  chown -R $id:$id "$home"
  chmod 711 "$TMPDIR" "$work"
  # The user need not be able to reach the source tree: it is bound below $home.
  # shellcheck disable=SC2016 # expanded by the other shell
  unshare -m bash -eu -c '
    work=$1 home=$2 id=$3 root=$4 build=$5
    for file in passwd group; do mount --bind "$work/$file" /etc/$file; done
    for file in subuid subgid; do mount --bind "$work/subid" /etc/$file; done
    mount --bind "$root" "$home/tree"
    mount --bind "$build" "$home/build"
    cd "$home"
    exec setpriv --reuid=$id --regid=$id --clear-groups --inh-caps=-all env -u FS_BUILD HOME="$home" USER=fanstore-test \
      XDG_RUNTIME_DIR="$home/runtime" TMPDIR="$home/tmp" FS_BUILD="$home/build" IMAGE="$work/trixie.tar" \
      bash tree/tests/containers/podman.sh' user "$work" "$home" "$id" "$root" "$build"
}
as_root() {
  podman_with "$work"
  cases "$work/trixie.tar"
}
undo() { umount -l "$work/root/overlay" 2>/dev/null || :; }
as_root
echo "ok - as root"
(as_user) || {
  status=$?
  [ $status = 77 ] || fail "as an ordinary user: status $status"
  say "not as an ordinary user"
  exit 0
}
echo "ok - as an ordinary user"
