#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs that join a running job: attach and env, in a job with COMMAND and in one without; in a container that sees
# nothing but what env --container binds.
. "$(dirname "$0")/../functions.sh"
make_tree "$work/source"
pack "$work/source" "$work/it's.ds" --partitions 3 --mount "$mnt"
ds="$work/it's.ds"
cd "$work"
f() { "$bin/fs-launch" "$@"; }

# A job with COMMAND, which ends when the file `end` is there.
run_job() { # fs-launch's options
  rm -f begun end
  launch --dataset "$ds" "$@" -- sh -c 'touch begun; while [ ! -e end ]; do sleep 0.02; done; exit 5' >job.out 2>job.err &
  job=$!
  wait_until 30 test -e begun
}
end_job() { # STATUS
  local rc=0
  touch end
  wait "$job" || rc=$?
  equal "status of the job" "$1" "$rc"
}

expect_status 125 f attach true
one_line err '^fs-launch: you have no job on this host$'
run_job --emulate 2 --static
f attach -- diff -r --no-dereference source "$mnt" || fail "the tree is another one"
expect_status 7 f attach sh -c 'exit 7'
expect_status 143 f attach sh -c 'kill -TERM $$'
expect_status 127 f attach -- nosuchprogram
f attach sh -c 'tr "\0" " " </proc/$PPID/cmdline' | grep -q '/fanstore-static ' || fail "not by the supervisor"
SHELL=/bin/hostname f attach >out </dev/null
equal "the shell" "$(hostname)" "$(cat out)"
name=$(cd "$TMPDIR/fanstore-$(id -u)" && echo job-*)
for k in 0 1; do
  f attach "$name" --node $k -- sh -c 'echo $FANSTORE_NODE >"$1/$FANSTORE_NODE"' - "$mnt" || fail "node $k"
  equal "what node $k wrote" $k "$(f attach "$TMPDIR/fanstore-$(id -u)/$name/" -- cat "$mnt/$k")"
done
expect_status 2 f attach --node 2 true
one_line err "^fs-launch: $name has no node 2 on this host \(there is: 0, 1\)$"
expect_status 2 f attach --node x true
expect_status 125 f attach $'job-x\n;y' true
one_line err '^fs-launch: job-x\\n;y: you have no such job'
f attach rm "$mnt/0" "$mnt/1" || fail "rm"
echo "ok - attach: the tree, status, signals, the shell, nodes, the supervisor"

(eval "$(LD_PRELOAD=/lib/theirs.so f env --node 1 2>/dev/null)" && env) >out 2>/dev/null
grep -qx "LD_PRELOAD=$lib:/lib/theirs.so" out || fail "LD_PRELOAD: $(grep LD_PRELOAD out)"
grep -qx "FANSTORE_DATASET=$ds" out || fail "FANSTORE_DATASET: $(grep DATASET out)"
grep -qx "FANSTORE_NODE=1" out || fail "no node"
(export FANSTORE_READ_ONLY=1 && eval "$(f env)" && env) >out
grep FANSTORE_READ_ONLY out && fail "it is another job's"
LD_PRELOAD=$lib.old f attach ls "$mnt" >/dev/null 2>&1 || fail "a library with a longer name counts as ours"
file=$TMPDIR/fanstore-$(id -u)/$name/node-1.env
chmod 622 "$file"
expect_status 125 f attach --node 1 true
one_line err "^fs-launch: $file: Operation not permitted$"
chmod 600 "$file"
(eval "$(f env)" && diff -r --no-dereference source "$mnt") || fail "the tree is another one by env"
expect_status 2 f env --container lxc
expect_status 2 f env a b
echo "ok - env"

"$bin/fs-launch" attach sleep 100 &
asleep=$!
wait_until 30 grep -qz "^FANSTORE_RUN=" "/proc/$asleep/environ"
end_job 5
wait "$asleep" && fail "a program that joined was not ended"
grep -qE "process(es)? of COMMAND's still ran at its end" job.err || fail "$(cat job.err)"
echo "ok - at the end of COMMAND programs that joined are ended"

cat >container <<'OUTER'
#!/usr/bin/env bash
# Options of docker, COMMAND: TMPDIR has nothing but the binds.
set -eu
binds=() words=()
while :; do
  case $1 in
    --user) shift ;;
    --ipc=*) ;;
    -v) binds+=("${2%%:*}") && shift ;;
    -e) words+=("$2") && shift ;;
    *) break ;;
  esac
  shift
done
mkdir -p "$TMPDIR/held"
for i in "${!binds[@]}"; do
  mkdir -p "$TMPDIR/held/$i"
  mount --bind "${binds[i]}" "$TMPDIR/held/$i"
done
mount --rbind "$TMPDIR/held" /mnt
mount -t tmpfs none "$TMPDIR"
for i in "${!binds[@]}"; do
  mkdir -p "${binds[i]}"
  mount --bind "/mnt/$i" "${binds[i]}"
done
cd /
exec env -i PATH="$PATH" "${words[@]}" "$@"
OUTER
run_job --prefetch torch
equal "PYTHONPATH" "$build/share/fanstore/python" "$(env -u PYTHONPATH "$bin/fs-launch" attach printenv PYTHONPATH)"
options=$(f env --container docker)
for kind in podman apptainer enroot; do
  f env --container $kind | grep -q -- "$ds" || fail "$kind: no dataset"
done
if unshare -m true 2>/dev/null; then unshare=(unshare -m); else unshare=(unshare -rm); fi
if "${unshare[@]}" true 2>/dev/null; then
  # shellcheck disable=SC2086 # as users give the options
  contained() { "${unshare[@]}" bash "$work/container" $options "$@" 2>err; }
  contained ls source >/dev/null && fail "the container sees the host's files"
  equal "in a container" "$(cd source && find . | sort)" "$(contained sh -c "cd $mnt && find . | sort")"
  contained sh -c "echo from inside >$mnt/new" || fail "$(cat err)"
  equal "what the container wrote" "from inside" "$(f attach cat "$mnt/new")"
  options=$(sed 's#-v [^ ]*/job-[^ ]* ##; s#-v [^ ]*/local:[^ ]* ##' <<<"$options")
  file=$(cd source && find . -type f -size +0c -print -quit)
  contained cat "$mnt/$file" >out || fail "shared storage is bound, and nothing is read"
  cmp "source/$file" out
  one_line err 'run directory .* does not exist for this program.* fs-launch env --container'
  options=${options/"-v $ds:$ds "/}
  contained ls "$mnt" && fail "a container without binds has seen the mount"
  equal "lines of the library" 1 "$(grep -c '^fanstore: ' err)"
  echo "ok - in a container with the binds, and without: one line"
else
  say "no mount namespaces here: no container"
fi
end_job 5
grep -q "LD_PRELOAD reach" job.err && fail "$(cat job.err)"
expect_status 125 f env
echo "ok - --prefetch torch, containers"
