#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs in namespaces of their own, without a container runtime: in another root by chroot, in new
# user, mount and process namespaces, and in a process namespace that the daemons cannot see.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/functions.bash"
need_systems
from=("$(system_root bullseye)")
mkdir "$work/chroot"

cat >"$work/enter" <<'END'
#!/usr/bin/env bash
# enter ROOT OPTIONS-OF-DOCKER COMMAND...: by chroot. Nothing of this host is seen but the binds.
set -eu
from=$1 new=$2/chroot words=()
shift 2
mount -t tmpfs none "$new"
for d in "$from"/*; do
  name=${d##*/}
  case $name in
    dev | proc | tmp) mkdir "$new/$name" ;;
    *) if [ -L "$d" ]; then cp -P "$d" "$new"; elif [ -d "$d" ]; then mkdir "$new/$name" && mount --rbind "$d" "$new/$name"; fi ;;
  esac
done
mount --rbind /dev "$new/dev"
mount -t proc proc "$new/proc"
while :; do
  case $1 in
    --user) shift ;;
    -v) mkdir -p "$new${2%%:*}" && mount --rbind "${2%%:*}" "$new${2%%:*}" && shift ;;
    -e) words+=("$2") && shift ;;
    *) break ;;
  esac
  shift
done
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$new" env "${words[@]}" "$@"
END
contained() {
  local options=$1
  shift
  # shellcheck disable=SC2086 # as users give the options
  "${unshare[@]}" bash "$work/enter" "${from[@]}" "$work" $options "$@"
}
containers_dataset
begin_job
options=$(f env "$job" --container docker)
unshare=(unshare -m)
reads chroot "$options"
dies chroot "$options"
unshare=(unshare --user --map-root-user --mount --pid --fork --kill-child)
contained "-e A=b" true 2>"$work/err" || skip "no user namespaces here: $(cat "$work/err")"
reads namespaces "$options"
dies namespaces "$options"
expect_status 1 contained "$(unbound / "$options") -v $build/lib:$build/lib" python3 -c "open('$mnt/d00/f00000')"
equal "lines of the library" 1 "$(grep -c '^fanstore: ' "$work/err")"
grep -q '^fanstore: .*fs-launch env --container' "$work/err" || fail "$(cat "$work/err")"
expect_status 1 contained "$(unbound "$work/local:" "$options")" python3 -c "open('$mnt/other', 'w')"
equal "lines of the library" 1 "$(grep -c '^fanstore: ' "$work/err")"
grep -q "^fanstore: the job's local directory (.*) does not exist for this program" "$work/err" || fail "$(cat "$work/err")"
end_job
kept chroot
kept namespaces
served_by_daemons
echo "ok - by chroot, and in new user, mount and process namespaces; without binds one line"

# The daemons in a process namespace, and the programs outside: the daemons see no process of theirs.
rm "$work/report.json"
# shellcheck disable=SC2016 # expanded by the job's shell
unshare --pid --fork --mount-proc --kill-child "$bin/fs-launch" --local-dir "$work/local" --emulate 2 \
  --dataset "$work/ds" --stage-out "$out" --report "$work/report.json" -- bash -c '
  touch "$1/begun"
  until [ -e "$1/end" ]; do sleep 0.05; done' job "$work" 2>"$work/job.err" &
launcher=$!
wait_until 30 test -e "$work/begun"
job=$(echo "$TMPDIR"/fanstore-*/job-*)
contained() {
  shift
  f attach "$job" -- "$@"
}
reads unseen ""
dies unseen ""
touch "$work/end"
job=''
wait $launcher || fail "$(cat "$work/job.err")"
kept unseen
served_by_daemons
echo "ok - daemons that cannot see the processes of their clients"
