#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack and names whose bytes are elsewhere: symlinks that lead out of SOURCE (told, or followed with
# --dereference), files of pseudo file systems, and files that shrink or vanish while they are packed.
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare
ok() { echo "ok - $*"; }
cd "$work"
# packs OUTPUT-PATTERN ARGUMENT...: status 0, and exactly one line on standard error; '': none
packs() {
  local pattern=$1
  shift
  expect_status 0 "$prepare" pack "$@"
  if [ -n "$pattern" ]; then one_line err "$pattern"; else equal "messages of pack $*" '' "$(cat err)"; fi
}
# refuses PATTERN ARGUMENT...: status 1, and the pattern on standard error
refuses() {
  local pattern=$1
  shift
  expect_status 1 "$prepare" pack "$@"
  grep -qE -- "$pattern" err || { cat err >&2; fail "no '$pattern'"; }
}
types() { find "$1" -mindepth 1 -printf '%P %y %l\n' | sed 's/ *$//' | LC_ALL=C sort; }
same_for_all_jobs() { # SOURCE OPTION...
  local source=$1 jobs
  shift
  rm -rf ds ds-1 ds-4 restored
  for jobs in 1 4; do packs '' --jobs $jobs "$@" "$source" ds-$jobs; done
  diff -r ds-1 ds-4 || fail "the output depends on --jobs: $*"
  mv ds-1 ds
  expect_status 0 "$prepare" verify ds
  expect_status 0 "$prepare" unpack ds restored
}

# As Hugging Face's cache: the snapshot's files are links to blobs beside it.
mkdir -p hub/blobs hub/snapshots/rev
printf '{"layers": 2}\n' >hub/blobs/b1
head -c 3000000 /dev/urandom >hub/blobs/b2
ln -s ../../blobs/b1 hub/snapshots/rev/config.json
ln -s ../../blobs/b2 hub/snapshots/rev/model.bin
ln -s ../../blobs/b2 hub/snapshots/rev/model.copy
packs 'warning: 3 of 3 symlinks lead out of SOURCE \(as config\.json does\).*--dereference outside' hub/snapshots/rev hf
packs '' hub all.fs
packs '' hub/blobs blobs.fs
expect_status 2 "$prepare" pack --dereference some hub/snapshots/rev other
one_line err "--dereference 'some': give all or outside"
for which in outside all; do
  same_for_all_jobs hub/snapshots/rev --dereference $which --mount "$mnt"
  equal "types, $which" 'config.json f
model.bin f
model.copy f' "$(types restored)"
  cmp restored/model.copy hub/blobs/b2 || fail "contents, $which"
  equal "links to one blob are one file" 2 "$(stat -c %h restored/model.bin)"
  equal "and stored once" 1 "$(($(du -b --apparent-size -c ds/part-* | tail -n 1 | cut -f 1) / 3000000))"
done
mv hub/blobs hub/away
equal "a program on the mount" '{"layers": 2}' "$(plain "$work/ds" "$mnt" cat "$mnt/config.json")"
equal "its type" 'regular file' "$(plain "$work/ds" "$mnt" stat -c %F "$mnt/config.json")"
mv hub/away hub/blobs
ok 'symlinks that lead out of SOURCE are told, and followed on demand'

# Every way of a link, and what a program on the mount makes of it.
mkdir -p src/sub other/deep other2
echo src >src/f
echo sub >src/sub/f
echo other >other/f
echo other2 >other2/f
echo wrong >src/wrong
ln -s sub/f src/rel
ln -s ../f src/sub/up
ln -s ../src/f src/around # leaves and comes back by a name that the dataset does not have
ln -s "$work/src/f" src/abs-in
ln -s "$work//./src/sub/../f" src/abs-dots
ln -s "$work/src/../other/f" src/abs-out
ln -s ../other src/out
ln -s out/f src/through
ln -s through src/chain
ln -s out/../wrong src/back # in the file system: wrong, beside other
echo right >wrong
ln -s f other/sib
ln -s ../other2/f other/up
ln -s ../f other/deep/near
ln -s "$work/src/f" other/home
packs 'warning: 6 of 10 symlinks lead out of SOURCE .as abs-out does' src plain.fs
same_for_all_jobs src --dereference outside
equal 'types with --dereference outside' "abs-dots l $work//./src/sub/../f
abs-in l $work/src/f
abs-out f
around f
back f
chain l through
f f
out d
out/deep d
out/deep/near l ../f
out/f f
out/home l $work/src/f
out/sib l f
out/up f
rel l sub/f
sub d
sub/f f
sub/up l ../f
through l out/f
wrong f" "$(types restored)"
mv other away
mv other2 away2
for f in abs-in:src abs-dots:src abs-out:other around:src back:right chain:other out/deep/near:other out/home:src \
  out/sib:other out/up:other2 rel:sub sub/up:src through:other; do
  equal "${f%:*} on the mount" "${f#*:}" "$(plain "$work/ds" "$work/src" cat "$work/src/${f%:*}")"
done
mv away other
mv away2 other2
cp -rL src copied
same_for_all_jobs src --dereference all
equal 'no symlink is left' '' "$(find restored -type l)"
diff -r restored copied || fail 'not as cp -L copies it'
# The mount decides what an absolute link is; so does the name by which SOURCE was given.
packs 'warning: 8 of 10 symlinks' src --mount "$mnt" mounted.fs
ln -s src named
packs 'warning: 8 of 10 symlinks' named named.fs
mkdir real
ln -s real parent
cp -a src/f real/
mkdir real/s
ln -s "$work/real/s/x" real/s/y
ln -s "$work/parent/s/x" real/s/z
packs '' parent/s parent.fs # a mount below a symlink has two names
ok 'inside and outside are what a program on the mount sees'

ln -s nothing src/dangling
ln -s itself src/itself
same_for_all_jobs src --dereference outside
equal 'dangling within SOURCE' 'nothing itself' "$(readlink restored/dangling) $(readlink restored/itself)"
refuses 'src/dangling is a symlink to be followed that leads to nothing' --dereference all src no.fs
refuses 'src/itself is a symlink to be followed that leads to itself' --dereference all src no.fs
rm src/dangling src/itself
for link in "nothing:../nothing" "devices:/dev/null" "here:." "up:../src/sub/.." "above:$work"; do
  ln -sfn "${link#*:}" "src/${link%:*}"
  case ${link%:*} in
    nothing) refuses 'src/nothing is a symlink to be followed that leads to nothing' --dereference outside src no.fs ;;
    devices) refuses 'src/devices is a device' --dereference outside src no.fs ;;
    here) refuses 'src/here is a directory that a symlink leads to from below it: a loop' --dereference all src no.fs ;;
    up) refuses 'src/up is .*: a loop' --dereference outside src no.fs ;;
    above) refuses 'src/above/src is .*: a loop' --dereference outside src no.fs ;;
  esac
  rm "src/${link%:*}"
done
refuses 'src/out/.no.fs.partial-.* is the dataset that is being made' --dereference outside src other/no.fs
equal 'nothing is left' '' "$(find . -name '*no.fs*')"
packs '' --dereference all --exclude '*/up' --exclude 'out' --exclude chain --exclude through --exclude around \
  --exclude back --exclude 'abs*' src excluded.fs
ok 'loops, dangling links and what cannot be packed are named'

# Files whose size is 0 though they have bytes. Those of other file systems are empty.
mkdir empty
touch empty/a empty/b
packs '' empty empty.fs
refuses '/proc/sys/fs/inotify/max_user_instances has bytes though its size is 0' /proc/sys/fs/inotify no.fs
ln -s /proc/version empty/version
refuses 'empty/version has bytes though its size is 0.*pack a copy' --dereference all empty no.fs
ok 'files of pseudo file systems are refused'

# Stops pack while it reads the first file, changes a later one, and lets it go on.
mkdir moving
head -c 24000000 /dev/urandom | base64 >moving/first # seconds of lz4hc:12
for how in shrinks vanishes; do
  head -c 100000 /dev/zero >moving/later
  "$python" - "$prepare" $how <<'PY' || fail "a file that $how"
import os, signal, subprocess, sys, time
p = subprocess.Popen([sys.argv[1], "pack", "--jobs", "1", "--codec", "lz4hc:12", "moving", "no.fs"], stderr=subprocess.PIPE)
def reads_first():
    try:
        return any(os.readlink(f"/proc/{p.pid}/fd/{n}").endswith("/first") for n in os.listdir(f"/proc/{p.pid}/fd"))
    except OSError:
        return False
while p.poll() is None and not reads_first():
    pass
p.send_signal(signal.SIGSTOP)
if sys.argv[2] == "shrinks":
    os.truncate("moving/later", 1000)
else:
    os.remove("moving/later")
p.send_signal(signal.SIGCONT)
said = p.communicate()[1].decode()
print(said, end="")
sys.exit(not (p.returncode == 1 and said == "fs-prepare: moving/later: changed while it was being packed; pack again when nothing writes to it\n"))
PY
done
equal 'no dataset' '' "$(find . -name '*no.fs*')"
ok 'files that shrink or vanish are named'
