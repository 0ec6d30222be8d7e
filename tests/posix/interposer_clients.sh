#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Ordinary programs on a mount print what they print on the plain directory: the shell with its redirections, cd and
# globs, coreutils, find, tar, rsync, git, grep, Python. Then threads that read, fork and spawn at the same time.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
need_command cc

plain_dir=$work/source
mkdir -p "$plain_dir"
"$python" - "$plain_dir" <<'EOF'
import os, random, sys
r, base = random.Random(1), sys.argv[1]
for d in range(4):
    os.makedirs(f"{base}/d{d}/sub")
    for i in range(30):
        open(f"{base}/d{d}/f{i}.bin", "wb").write(r.randbytes(r.choice([0, 10, 4096, 5000, 20000, 150000])))
    open(f"{base}/d{d}/sub/t.txt", "w").write("hello\nworld\n" * 100)
open(f"{base}/big.bin", "wb").write(r.randbytes(3_000_000))
open(f"{base}/a.txt", "w").write("".join(f"line {i}\n" for i in range(1000)))
for name, target in [("ln", "a.txt"), ("lnd", "d0"), ("out", "/etc/hostname"), ("dang", "nope"), ("loop", "loop")]:
    os.symlink(target, f"{base}/{name}")
open(f"{base}/run.sh", "w").write('#!/bin/sh\necho "script $*"\ncat < "$(dirname $0)/d0/sub/t.txt" | md5sum\n')
os.chmod(f"{base}/run.sh", 0o755)
EOF
pack "$plain_dir" "$work/ds" --partitions 3
ln -s "$mnt" "$work/to-mount"
ln -s "$plain_dir" "$work/to-plain"
mkdir "$work/scratch"
export scratch=$work/scratch
bad=0

# same NAME SCRIPT: '@' in it is the directory
same() {
  local name=$1 want got
  want=$(bash -c "cd /; ${2//@/$plain_dir}" 2>&1 </dev/null | sed "s#$plain_dir#@#g") || true
  got=$(plain "$work/ds" "$mnt" timeout 60 bash -c "cd /; ${2//@/$mnt}" 2>&1 </dev/null | sed "s#$mnt#@#g") || true
  [ "$want" = "$got" ] && return
  {
    echo "$name differs:"
    diff <(echo "$want") <(echo "$got") | head -n 10
    bad=$((bad + 1))
  }
}
say "programs"
same ls 'ls @ @/d0; ls -lR @ | grep -v ^total | grep -v ^d'
same cd 'cd @/d1 && ls && pwd && cat f1.bin | md5sum && cd sub && head -n 1 t.txt && cd .. && pwd -P && md5sum < ../a.txt'
same cd-twice 'cd @/d0; (cd sub; pwd; head -n 1 t.txt); pwd; bash -c "pwd; ls | head -n 2"; cd @/d1/sub; cd ../../d2; ls | wc -l'
same chdir-exec 'cd @/d0 && env pwd && sh -c "cd sub && env pwd && env cat t.txt | head -n 1"'
same globs 'cd @ && echo d*/f1*; echo @/d?/sub/*; for f in @/d0/f1?.bin; do echo $f; done'
same redirect 'while read a b; do echo "$b$a"; done < @/a.txt | md5sum; exec 5< @/a.txt; read -u 5 x; echo $x; read -u 5 x; echo $x; cat <&5 | head -n 1'
same stdin 'md5sum < @/big.bin; sort -r < @/a.txt | head -n 3; (read x; echo $x; head -n 1) < @/a.txt | head -n 1; wc -c < @/d0/f5.bin'
same tests '[ -f @/a.txt ] && echo f; [ -d @/d0 ] && echo d; [ -L @/ln ] && echo l; [ -e @/none ] || echo no; [ -x @/run.sh ] && echo x; test -r @/a.txt && echo r; [ @/a.txt -ef @/ln ] && echo ef'
same text 'head -c 20 @/a.txt; tail -n 3 @/a.txt; wc @/a.txt; sed -n 5p @/a.txt; awk "END{print NR}" @/a.txt; tac @/a.txt | head -n 2; cut -c 1-3 @/a.txt | uniq -c'
same find 'find @ -name "f1*" | sort; find @ -type l | sort; find -L @ -maxdepth 1 -type f | sort; find @ -size +100k | sort; find @ -newer /etc/hostname -name a.txt'
same find-exec 'find @/d0 -name "f1*" -exec wc -c {} \; | sort; find @/d1 -name "f1*" -execdir md5sum {} \; | sort; find @/d2 -type f -print0 | sort -z | xargs -0 -P 4 -n 3 cat | wc -c'
same stat 'stat -c "%n %s %a %h %Y %F" @/a.txt @/ln @/d0/f1.bin; stat -L -c %s @/ln; stat -c %F @/dang'
same links 'readlink @/ln @/out; readlink -f @/ln; readlink -e @/lnd/sub; realpath @/lnd/f1.bin; cat @/ln | md5sum; cat @/out; ls @/lnd/ | wc -l'
same errors 'cat @/loop; cat @/dang; cat @/nope; cat @/d0; cat @/a.txt/; cat @/a.txt/x; ls @/d0/../a.txt; ls @/nodir/../a.txt; ls @//d0/./sub/../f1.bin'
same du 'du -a --apparent-size @/d0 | grep bin | sort; du --apparent-size -c @/big.bin'
same grep 'grep -r hello @ | sort | head -n 3; grep -c line @/a.txt; grep -rl world @ | sort'
same script '@/run.sh a b; sh @/run.sh x; cd @ && ./run.sh y'
same tar 'tar cf - --sort=name -C @ d0 a.txt ln | tar xOf - | md5sum; tar cf - -C @/d0 . | tar tf - | sort'
same copies 'rm -rf $scratch/*; cp -a @ $scratch/a; cp -r @/d0 $scratch/b; cp @/big.bin $scratch/c; cd $scratch; find . -type f | sort | xargs md5sum; find . -printf "%p %m %l\n" | sort'
same dd 'dd if=@/big.bin bs=1000 skip=5 count=2 status=none | md5sum; cmp @/a.txt @/ln && echo same; split -n 3 @/a.txt $scratch/split. && cat $scratch/split.* | md5sum'
command -v rsync >/dev/null && same rsync 'rm -rf $scratch/r; rsync -a @/ $scratch/r && cd $scratch/r && find . -type f | sort | xargs md5sum'
command -v git >/dev/null && same git 'git diff --no-index --numstat @/a.txt @/run.sh | cat; git hash-object @/a.txt @/big.bin'
command -v perl >/dev/null && same perl 'perl -ne "print if 3..4" @/a.txt; perl -e "opendir(D,q(@/d0)); print join(q( ), sort(readdir D)), -s q(@/big.bin)"'
want=$(cat "$work/to-plain/a.txt" "$work/to-plain/d0/f5.bin" | md5sum)
equal "through a symlink outside" "$want" "$(plain "$work/ds" "$mnt" bash -c "cat $work/to-mount/a.txt $work/to-mount/d0/f5.bin | md5sum")"
[ $bad = 0 ] || fail "$bad programs"
(cd "$work" && equal "a dataset named by a relative path, after cd" "$(md5sum <"$plain_dir/a.txt")" \
  "$(plain ds "$mnt" bash -c "cd /; cat $mnt/a.txt" | md5sum)")
equal "the node is decided once, for the children too" 3 \
  "$(RANK=7 FANSTORE_EMULATE=4 plain "$work/ds" "$mnt" bash -c 'unset RANK; printenv FANSTORE_NODE')"

say "Python"
"$python" "$here/interposer_python.py" "$plain_dir" >"$work/want" 2>&1
plain "$work/ds" "$mnt" "$python" "$here/interposer_python.py" "$mnt" >"$work/got" 2>&1 || { tail "$work/got"; fail "Python"; }
diff "$work/want" "$work/got" || fail "Python differs"

say "threads, forks and children at once"
plain "$work/ds" "$mnt" timeout 100 "$python" "$here/interposer_stress.py" "$plain_dir" "$mnt" 3
left=$(find /tmp "$TMPDIR" -maxdepth 1 -name '.fanstore-cwd.*' 2>/dev/null)
[ -z "$left" ] || fail "left behind: $left"
no_leftovers
