#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Current directories of every kind: below a mount, above one, removed, of another root; and what pwd, getcwd and realpath
# say of them.
. "$(dirname "$0")/../functions.sh"
need_command unshare

mkdir -p "$work/source/d/e" "$work/real/gone" "$work/jail/inside"
echo 'a file' >"$work/source/d/file"
echo 'of the jail' >"$work/jail/inside/file"
ln -s d "$work/source/to-d"
pack "$work/source" "$work/ds"
above=$work/mnt

say "pwd, cd and what children inherit"
# shellcheck disable=SC2016
plain "$work/ds" "$mnt" bash -ec '
  cd "$0/to-d/e"; pwd; pwd -P; /bin/pwd; env pwd -P
  cd ..; cat file; sh -c "cd e && pwd -P && cat ../file"
  cd ../../..; pwd -P; ls; cd "$(basename "$1")"; pwd -P; ls; cd nowhere/d; pwd -P; (cd .. && pwd -P); realpath file .. ../..
  find . -name file; cd "$2"; cat "$0/d/file"' "$mnt" "$above" "$work/real" | sed "s|$work|W|" >"$work/out"
cat >"$work/want" <<'END'
W/mnt/nowhere/to-d/e
W/mnt/nowhere/d/e
W/mnt/nowhere/d/e
W/mnt/nowhere/d/e
a file
W/mnt/nowhere/d/e
a file
W
ds
jail
mnt
out
pack.log
real
source
W/mnt
nowhere
W/mnt/nowhere/d
W/mnt/nowhere
W/mnt/nowhere/d/file
W/mnt/nowhere
W/mnt
./file
a file
END
diff "$work/want" "$work/out" || fail "other directories than expected"

say "a current directory that was removed"
plain "$work/ds" "$mnt" "$python" - "$work/real/gone" "$mnt" <<'END'
import os, subprocess, sys
gone, mnt = sys.argv[1:]
def fails(error, f, *a):
    try:
        f(*a)
    except error:
        return
    raise AssertionError(f"{f} {a} works")
os.chdir(gone)
os.rmdir(gone)
fails(FileNotFoundError, os.getcwd)
fails(FileNotFoundError, open, "file")
fails(FileNotFoundError, os.stat, "../../mnt/nowhere/none")
assert open(mnt + "/d/file").read() == "a file\n"
assert os.listdir(mnt + "/d") == ["e", "file"]
child = subprocess.run(["cat", mnt + "/d/file"], capture_output=True, text=True)
assert child.stdout == "a file\n", child
os.chdir(mnt + "/d")
assert os.getcwd() == mnt + "/d" and open("file").read() == "a file\n"
END

say "another root"
unshare -Ur true 2>/dev/null || {
  say "no user namespaces here: left out"
  exit 0
}
FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$mnt unshare -Ur env LD_PRELOAD="$lib" "$python" - "$work/jail" "$mnt" <<'END'
import os, sys
jail, mnt = sys.argv[1:]
assert open(mnt + "/d/file").read() == "a file\n"  # what was not opened yet cannot be found from there
os.chdir(mnt + "/d")
before = open(mnt + "/d/file")
os.chroot(jail)
assert open("/inside/file").read() == "of the jail\n"
os.chdir("/inside")
assert os.getcwd() == "/inside" and open("file").read() == "of the jail\n" and os.listdir("..") != []
# A mount is a path: it is there in every root, though there is no /proc.
assert before.read() == "a file\n" and open(mnt + "/d/file").read() == "a file\n" and os.stat(mnt + "/d").st_nlink == 3
END
no_leftovers
