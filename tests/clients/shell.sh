#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Shells on a dataset: bash (redirections, offsets shared with children, globs, cd, completion), dash, and busybox's where
# it is dynamic; scripts that lie in the dataset; perl; and what starts programs: env, nohup, timeout, stdbuf, xargs.
. "$(dirname "$0")/harness.bash"

data() {
  make_tree "$1"
  seq -f 'line %g' 2000 >"$1/lines"
  mkdir -p "$1/bin" "$1/src"
  printf '#!/bin/sh\necho "sh: $0 $*" | sed "s|.*/bin|bin|"\nhead -n 1 <"$(dirname "$0")/../lines"\n' >"$1/bin/run"
  printf '#!/usr/bin/env bash\necho "bash: ${BASH_SOURCE[0]##*/} $#"; source "${BASH_SOURCE%%/*}/lib.sh"; greet "$@"\n' >"$1/bin/run.bash"
  printf '#!/usr/bin/perl -w\nprint "perl: @ARGV\\n"; while (<DATA>) { print }\n__DATA__\none\ntwo\n' >"$1/bin/run.pl"
  printf '#!/usr/bin/awk -f\n{ n += NF } END { print n }\n' >"$1/bin/run.awk"
  printf '#!%s/bin/interpreter -x\nthe script\n' "$mnt" >"$1/bin/nested"
  printf '#!/bin/sh\necho "interpreter: $#: $1"; cat "$2"\n' >"$1/bin/interpreter"
  printf 'greet() { echo "greetings, $*"; }\nvariable=set\nreturn 3\n' >"$1/bin/lib.sh"
  printf 'echo not executable\n' >"$1/bin/plain"
  printf '#!/no/such/interpreter\n' >"$1/bin/no-interpreter"
  printf '#!/bin/sh\nkill -TERM $$\n' >"$1/bin/dies"
  cp /usr/bin/env "$1/bin/env-copy"
  chmod 755 "$1"/bin/*
  chmod 644 "$1/bin/plain"
  ln -s run "$1/bin/link-to-run"
  sed -i 's|%%|%|' "$1/bin/run.bash"
}

try redirect 'while read -r a b; do echo "$b $a"; done <"$D/lines" | md5sum; wc -l <"$D/lines"; sort <"$D/lines" >sorted; tr a-z A-Z <"$D/lines" >>sorted'
try exec-5 'exec 5<"$D/lines"; read -r -u 5 x; echo "$x"; read -r x <&5; echo "$x"; head -c 20 <&5 | od -c; exec 6<&5; read -r -u 6 x; exec 5<&-; read -r -u 6 y; echo "$y"; exec 6<&-; read -r z <&6 2>/dev/null || echo closed'
try exec-0 'exec <"$D/lines"; read -r x; echo "$x"; (read -r x; echo "sub $x"); read -r x; echo "$x"; bash -c "read -r x; echo child \$x"; read -r x; echo "$x"; exec </dev/null; cat'
try children-share-offset 'exec 7<"$D/lines"; (read -r -u 7 x; echo "$x"); read -r -u 7 x; echo "$x"; (exec 7<&-); read -r -u 7 x; echo "$x"; bash -c "read -r -u 7 x; echo \$x"; read -r -u 7 x; echo "$x"'
try offset-by-duplicate 'exec 3<"$D/lines"; { head -n 1; } <&3 >/dev/null; cat <&3 | md5sum'
try offset-by-program 'exec 3<"$D/lines"; sed -n 1q <&3; dd bs=10 count=1 status=none <&3 | od -c; python3 -c "import os; print(os.read(3, 9), os.lseek(3, 0, 1))"; read -r -u 3 x; echo "$x"'
try while-ssh-like 'while read -r x; do echo "$x"; cat >/dev/null; done <"$D/lines"'
try named-fd 'exec {f}<"$D/lines"; read -r -u "$f" x; echo "$x"; exec {f}<&-; { read -r a; read -r b; echo "$a $b"; } {g}<"$D/lines" <&$g'
try readwrite 'exec 8<>file 9<"$D/lines"; read -r -u 9 x; echo "$x" >&8; cat file; exec 8>&- 9<&-'
try many-fds 'for i in {10..60}; do eval "exec $i<\"\$D/lines\""; done; for i in {10..60}; do read -r -u $i x; echo "$x"; done | uniq -c; ls /proc/self/fd | wc -l'
try open-close 'for i in {1..300}; do read -r x <"$D/lines"; done; echo "$x"; ls /proc/$$/fd | wc -l'
try mapfile 'mapfile -t a <"$D/lines"; echo ${#a[@]} "${a[1999]}"; mapfile -n 3 -s 5 b <"$D/lines"; printf "%s" "${b[@]}"; readarray -d "" -t c < <(find "$D/odd" -print0 | sort -z); printf "[%s]" "${c[@]}"'
try substitution 'echo "$(<"$D/links/target")" "$(cat "$D/modes/755")"; x=$(<"$D/lines"); echo ${#x}; echo "$(< "$D/odd/a b")"; y=`head -n 2 $D/lines`; echo "$y"'
try here 'cat <<<"$(<"$D/modes/644" 2>/dev/null || echo none)"; cat - "$D/links/target" <<E
here
E'
try process-substitution 'diff <(sort "$D/lines") <(sort -r "$D/lines" | sort) && echo same; paste <(cat "$D/modes/444") <(cat "$D/modes/600"); tee >(md5sum >sum) <"$D/lines" | wc -l; sleep 0.2; cat sum; while read -r x; do echo "$x"; done < <(head -n 3 "$D/lines")'
try coproc 'coproc c { cat "$D/lines"; }; read -r -u ${c[0]} x; echo "$x"; cat <&${c[0]} | md5sum; wait'
try read-options 'read -r -n 5 x <"$D/lines"; echo "$x"; read -r -d 3 x <"$D/lines"; echo "$x"; IFS= read -r -N 20 x <"$D/lines"; echo "$x"; read -r -t 1 -a w <"$D/lines"; echo "${w[1]}"'
try printf-out 'exec >out 2>err; cat "$D/modes/444"; ls "$D/none"; echo end >&2; true'
try stdin-closed 'cat "$D/links/target" <&-; head -n 1 "$D/lines" 0<&- 2>&1; (exec 0<&- 1>&2 2>&-; cat "$D/links/target") 2>&1; true'
try stdin-first-fd '(exec 0<&-; exec 0<"$D/lines"; read -r x; echo "$x"); (exec 2<"$D/lines"; cat <&2 | tail -n 1); true'
try background 'cat "$D/lines" | md5sum & wait; for i in 1 2 3 4; do (wc -c <"$D/sizes/text-262145.bin") & done; wait'
try pipe-status 'cat "$D/lines" | grep -c line | cat; echo "${PIPESTATUS[*]}"; false | cat "$D/none" 2>/dev/null | true; echo "${PIPESTATUS[*]}"'
try trap 'trap "cat \"$D/links/target\"" USR1 EXIT; kill -USR1 $$; echo after; (trap "wc -l <\"$D/lines\"" EXIT)'

try globs 'echo "$D"/*; echo "$D"/*/text-1*; echo "$D"/train/class[0-2]/*[05]1.jpg; cd "$D" && echo */ */*/ "$D"/[a-m]*'
try globs-options 'shopt -s globstar dotglob nullglob extglob
printf "%s\n" "$D"/odd/** "$D"/odd*/**/inside; echo "$D"/none*; echo "$D"/modes/@(400|7*) "$D"/modes/!(4*|6*); cd "$D/deep" && echo ** | wc -w'
try globs-quoted 'printf "[%s]\n" "$D"/odd/*; printf "%q\n" "$D"/"odd dirs"/*/inside; f=("$D"/odd/.*); echo ${#f[@]}; shopt -s nocaseglob; echo "$D"/ODD/A*; echo "$D"/links/d*/'
fails globs-fail 'shopt -s failglob; echo "$D"/none*'
try completion 'compgen -f "$D/s" | sort; compgen -d "$D/" | sort; compgen -f -X "!*.bin" "$D/sizes/text" | sort; cd "$D" && compgen -f odd | sort; compgen -G "$D/modes/[46]*" | sort'
try cd 'cd "$D" && pwd && cd train && pwd -P && cd ../odd && echo * && cd - && cd class0/../class1 && pwd && ls | wc -l; cd; pwd | sed "s|.*/||"'
try cd-links 'cd "$D/links/dir" && pwd && pwd -P && cd .. && pwd; cd -P "$D/links/dir" && pwd && cd .. && pwd; cd "$D/links/dir/.." && pwd; set -P; cd "$D/links/dir/.."; pwd'
try pushd 'pushd "$D" && pushd train && dirs -v && popd && cat links/target; popd; CDPATH="$D:$D/train"; cd sizes; cd class3 && env pwd'
try cd-children 'cd "$D/modes"; sh -c "pwd; cat 444"; bash -c "cd ..; pwd; cat links/target"; env -C "$D/train" ls | sort; (cd ../odd; cat "a b"; env pwd); cat 600; python3 -c "import os; print(os.getcwd(), os.listdir())" | wc -w; perl -e "use Cwd; print getcwd, -s q(755)"; find . -name 7\* | sort'
fails cd-fails 'cd "$D/none"; cd "$D/lines"; cd "$D/links/loop-a"; cd "$D/links/dangling"; cd "$D/lines/.."'
try cd-out 'cd "$D/deep/level00"; cd ../../..; pwd; ls -d "$OLDPWD"; cd "$D/../nowhere/modes" && pwd'
try source 'source "$D/bin/lib.sh"; echo $? $variable; greet me; . "$D/bin/lib.sh"; cd "$D/bin"; . ./lib.sh; PATH=$D/bin . lib.sh; echo $?; bash --rcfile "$D/bin/lib.sh" -i -c "greet rc" 2>/dev/null; BASH_ENV=$D/bin/lib.sh bash -c "greet env"; ENV=$D/bin/lib.sh sh -c "echo x"'
try scripts '"$D/bin/run" a b; "$D/bin/link-to-run" c; cd "$D/bin" && ./run d && ./run.bash e f; ./run.pl g; ./run.awk run; bash "$D/bin/run" h; sh ./run i; perl "$D/bin/run.pl" j; bash -s <"$D/bin/lib.sh"; echo $?'
try scripts-nested '"$D/bin/nested" with arguments'
try scripts-path 'PATH=$D/bin:$PATH; run a; run.bash b; hash -t run; type run.pl; command -v run.awk; which run; env run c; nohup run d 2>/dev/null; timeout 20 run e; nice run f; stdbuf -oL run g; sh -c "run h"; xargs -I{} run {} <<<i; find "$D/modes" -name 444 -exec run {} \; | head -n 1; setsid -w run j; echo k | xargs -n 1 run'
try scripts-perl-system 'PATH=$D/bin:$PATH perl -e "system(q(run), q(a)); system(q(run b | cat)); print qx(run c); exec(q(run), q(d))"; PATH=$D/bin:$PATH gawk "BEGIN { system(\"run e\"); \"run f\" | getline x; print x }"'
fails scripts-refused '"$D/bin/plain"; echo $?; "$D/bin/no-interpreter"; echo $?; "$D/bin"; echo $?; "$D/bin/none"; echo $?; "$D/bin/dies"; echo $?; PATH=$D/bin plain; exec "$D/bin/none"'
try program '"$D/bin/env-copy" echo from the dataset; cd "$D/bin" && ./env-copy -C "$D/modes" cat 444; PATH=$D/bin:$PATH env-copy printf "%s\n" x; echo y | "$D/bin/env-copy" cat; "$D/bin/env-copy" -i "$D/bin/env-copy" echo z'
try program-background '"$D/bin/env-copy" sleep 0.1 & wait $!; echo $?; ("$D/bin/env-copy" cat "$D/links/target") | cat; x=$("$D/bin/env-copy" cat <"$D/modes/444"); echo "$x"'
try bash-file-tests '[[ $D/lines -nt $D/sizes ]] && echo newer; [[ -s $D/lines && -r $D/lines && ! -w /proc/version ]] && echo yes; [[ $D/links/hard -ef $D/links/target ]] && echo ef; [ -t 0 ] || echo no terminal; [ -N "$D/lines" ] || echo not N'
try select-many 'for f in "$D"/train/class0/*; do printf "%s %s\n" "${f##*/}" "$(cksum <"$f")"; done'
try history 'set -o history; history -r "$D/lines"; history | tail -n 3'
try dash 'cat >script <<"E"
while read -r a b; do echo "$b"; done <"$D/lines" | tail -n 1
exec 3<"$D/lines"; read -r x <&3; (read -r x <&3; echo "$x"); read -r x <&3; echo "$x"
cd "$D/links/dir"; pwd; pwd -P; cd ..; pwd; echo *
for f in "$D"/modes/*; do [ -x "$f" ] && echo "$f"; done
. "$D/bin/lib.sh"; echo "$variable"
cat <"$D/modes/444" | { read -r x; echo "$x"; }
[ "$D/links/hard" -ef "$D/links/target" ] && echo same
E
dash script'
fails dash-errors 'dash -c "cat <\"$D/none\""; dash -c "cd $D/none"; dash -c "echo >$D/new"; dash -c ". $D/none"; dash "$D/none"; dash -c "exec $D/bin/plain"'
have zsh && try zsh 'zsh -c "print -l \$D/**/*(.) | wc -l; cd \$D/links/dir; pwd; echo \$(<\$D/links/target); ls *(/)"'
if busybox --help 2>&1 | grep -q applet && ldd "$(command -v busybox)" >/dev/null 2>&1; then
  try busybox 'busybox ls -l "$D/modes"; busybox cat "$D/links/target"; busybox md5sum "$D/lines"; busybox tar -C "$D" -c modes | tar t; busybox sh -c "cd $D; pwd; wc -l <lines"'
fi

try perl-read 'perl -e "open F, q(<), q($D/lines) or die; @l = <F>; print scalar @l; seek F, 5, 0; read F, \$b, 7; print \$b, tell F, eof F"; perl -pe "s/line/x/" "$D/lines" | md5sum; perl -0777 -ne "print length" "$D/sizes/random-65536.bin"; perl -ne "print if eof" "$D/lines" "$D/modes/444"; perl -i.bak -pe 1 </dev/null; perl -e "print <STDIN>" <"$D/links/target"'
try perl-sys 'perl -e "use Fcntl; sysopen F, q($D/lines), O_RDONLY; sysseek F, 100, 0; sysread F, \$b, 30; print \$b; print sysseek(F, 0, 1); sysseek F, -10, 2; sysread F, \$b, 99; print length \$b; print -s F, -f _, -t F"'
try perl-stat 'perl -e "for (glob q($D/{modes,links,odd}/*)) { @s = stat; @l = lstat; print join(q( ), \$_, @s[2,3,4,5,7,8,9], @l[2,3,7,9], (-r \$_ ? 1 : 0), (-x _ ? 1 : 0), (-l \$_ ? readlink : q())), qq(\n) }"'
try perl-text 'perl -e "for (@ARGV) { print \$_, -T \$_ ? 1 : 0, -B \$_ ? 1 : 0, -z \$_ ? 1 : 0, -e \$_ ? 1 : 0, -d _ ? 1 : 0, -M \$_ > 100 ? 1 : 0, qq(\n) }" "$D"/sizes/* "$D"/modes "$D/none"'
try perl-dir 'perl -e "opendir D, q($D/odd); @e = sort readdir D; print qq([\$_]\n) for @e; rewinddir D; print scalar(@{[readdir D]}); closedir D; chdir q($D/modes); print sort glob q(*); chdir q(..); print -d q(odd)"'
try perl-find 'perl -MFile::Find -e "find(sub { push @x, \$File::Find::name . q( ) . (-s _ || 0) if -f }, @ARGV); print qq(\$_\n) for sort @x" "$D"; perl -MFile::Find -e "find({ wanted => sub { push @x, \$_ }, no_chdir => 1, follow => 1, follow_skip => 2 }, q($D/links/dir)); print scalar @x"'
try perl-modules 'perl -MFile::Copy -e "copy(q($D/sizes/random-65536.bin), q(a)); copy(\*STDIN, q(b))" <"$D/lines"; perl -MFile::Spec -MCwd=abs_path,realpath -e "print abs_path(q($D/links/chain)), realpath(q($D/links/dir/../odd))"; perl -MFile::Compare -e "print compare(q($D/links/hard), q($D/links/target))"; perl -MDigest::MD5 -e "open F, q($D/lines); print Digest::MD5->new->addfile(*F)->hexdigest"; perl -I"$D" -e "print scalar @INC > 3"; perl -MFile::Temp -e 1; perl -MIO::File -e "print IO::File->new(q($D/links/target))->getline"'
try perl-fds 'perl -e "open F, q($D/lines); open G, q(<&), \*F; open H, q(<&=), fileno F; <F>; print scalar <F>; if (!fork) { sysseek F, 20, 0; exit } wait; sysread G, \$b, 10; print \$b; open STDIN, q(<&F); exec q(head -c 12)"'
try perl-flock 'perl -e "use Fcntl q(:flock); open F, q($D/lines); print flock(F, LOCK_SH), flock(F, LOCK_UN); print flock(F, LOCK_EX | LOCK_NB) ? 1 : 0"; flock -s "$D/lines" cat "$D/links/target"; flock -n "$D/lines" echo locked'
refused perl-refused 'perl -e "for (q(open F, q(>), q($D/new)), q(open F, q(+<), q($D/lines)), q(open F, q(>>), q($D/lines)), q(unlink q($D/lines)), q(mkdir q($D/x)), q(rename q($D/lines), q($D/y)), q(utime 1, 1, q($D/lines)), q(symlink q(a), q($D/l)), q(chmod 0777, q($D/lines)), q(rmdir q($D/modes)), q(link q($D/lines), q($D/m)), q(truncate q($D/lines), 0), q(open F, q(<), q($D/none)), q(opendir F, q($D/lines)), q(chdir q($D/lines)), q(readlink q($D/lines)), q(open F, q(<), q($D/lines/))) { eval \$_; print \$_, q(: ), \$! + 0, q( ), \$!, qq(\n) }" | sed "s/q(.D/q(/"; false'

try env-programs 'env -i PATH="$PATH" cat "$D/links/target" 2>&1 | sed "s/.*: //"; true'
try stdbuf-timeout 'stdbuf -o0 head -n 2 "$D/lines"; timeout 5 cat "$D/links/target"; nohup cat "$D/modes/444" 2>/dev/null; nice -n 5 wc -l "$D/lines"; ionice -c 3 md5sum "$D/lines"; setsid -w cat "$D/modes/600"; env A=b printenv A; time -p true 2>/dev/null; taskset 1 cat "$D/links/target"; chrt -o 0 cat "$D/links/target"; script -qec "cat $D/links/target" /dev/null | tr -d "\r"'
have fakeroot && try fakeroot 'fakeroot cat "$D/links/target"; fakeroot ls -l "$D/modes" | wc -l; fakeroot tar --sort=name -C "$D" -c modes | tar tv; fakeroot sh -c "cd $D && find . -type f | wc -l"'
try prlimit 'prlimit --nofile=64 bash -c "cat $D/links/target; for i in {3..9}; do eval \"exec \$i<$D/lines\"; done; cat <&9 | wc -l"; (ulimit -n 40; cat "$D/lines" | md5sum; wc -l <"$D/lines"); (ulimit -v 2000000; md5sum "$D/lines")'
compare
