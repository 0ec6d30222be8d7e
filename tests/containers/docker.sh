#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs in Docker's containers, with the options of fs-launch env --container docker: they read
# what two emulated nodes have, write outputs, and leave no locks when they are killed. The Docker
# daemon is the test's own.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/functions.bash"
need_systems
need_command dockerd runc containerd
docker=/usr/bin/docker
[ -x $docker ] || skip "no $docker here"
export DOCKER_HOST=unix://$work/docker.sock DOCKER_CONFIG=$work/docker.config

undo() {
  kill "$dockerd" 2>/dev/null && wait "$dockerd"
  umount -l "$work/docker" "$work/exec"/netns/* 2>/dev/null || :
}
mkdir "$work/docker"
mount -t tmpfs tmpfs "$work/docker"
dockerd --data-root "$work/docker" --exec-root "$work/exec" --pidfile "$work/docker.pid" -H "$DOCKER_HOST" \
  --iptables=false --ip6tables=false --bridge=none >"$work/docker.log" 2>&1 &
dockerd=$!
up() { $docker info >/dev/null 2>&1 || ! kill -0 $dockerd 2>/dev/null; }
wait_until 30 up
kill -0 $dockerd 2>/dev/null || skip "dockerd does not run here: $(grep -v level=info "$work/docker.log" | tail -n 1)"
for system in trixie bullseye; do
  top=$(system_root $system)
  image "$top" | $docker import - $system >/dev/null || fail "docker import"
done
containers_dataset

run=("$docker" run --rm --init -i --network none)
from=(trixie)
contained() {
  local options=$1
  shift
  # shellcheck disable=SC2086 # as users give the options
  "${run[@]}" $options "${from[@]}" "$@"
}
contained "" python3 -c 1 2>"$work/err" || skip "docker run does not work here: $(tail -n 1 "$work/err")"
begin_job
options=$(f env "$job" --container docker)
reads new "$options"
dies new "$options"
from=(bullseye)
reads older "$options"
dies older "$options"
echo "ok - what containers of Debian 13 and 11 read and write; locks of killed programs"

# Without the library, without the run directory, as another user: one line, and no other bytes.
expect_status 1 contained "$(unbound / "$options")" python3 -c "open('$mnt/d00/f00000')"
grep -q "libfanstore.so' from LD_PRELOAD cannot be preloaded" "$work/err" || fail "$(cat "$work/err")"
expect_status 1 contained "$(unbound "$TMPDIR" "$options")" python3 -c "open('$mnt/d00/f00000')"
equal "lines of the library" 1 "$(grep -c '^fanstore: ' "$work/err")"
grep -q '^fanstore: .*fs-launch env --container' "$work/err" || fail "$(cat "$work/err")"
expect_status 1 contained "${options/"--user 0:0"/--user 4321:4321}" python3 -c "open('$mnt/other', 'w')"
equal "lines of the library" 1 "$(grep -c '^fanstore: ' "$work/err")"
grep -q "^fanstore: .* is another user's (run the program as the user of the job)" "$work/err" || fail "$(cat "$work/err")"
[ -z "$(f attach "$job" find "$mnt" -name other)" ] || fail "another user made an output"
echo "ok - without the binds, and as another user: one line"

contained "$options" sleep 100 &
left=$!
running() { [ -n "$($docker ps -q)" ]; }
wait_until 40 running
end_job
wait $left && fail "a container's program goes on after the job"
kept new
kept older
served_by_daemons
echo "ok - the end of the job ends containers, and outputs are kept"

from=(trixie)
begin_job # env in COMMAND means the job of COMMAND, although there is another one
by_command docker "${run[@]}"
end_job
echo "ok - docker run as COMMAND"
