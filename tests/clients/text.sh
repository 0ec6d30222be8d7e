#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# Programs that read files as text or bytes, each way: by argument, by redirection, many at once: coreutils, sed, awk,
# grep, rg, xxd, cmp, diff.
. "$(dirname "$0")/harness.bash"

data() {
  "$python" - "$1" <<'END'
import os, random, sys
r, top = random.Random(3), sys.argv[1]
words = [bytes(r.choices(b"abcdefghijklmnopqrstuvwxyz", k=r.randint(2, 9))) for _ in range(400)]
def put(name, data):
    path = os.path.join(top, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(data)
for i in range(40):
    lines = [b" ".join(r.choices(words, k=r.randint(1, 12))) for _ in range(r.randint(1, 400))]
    put("text/part%02d.txt" % i, b"\n".join(lines) + b"\n" * (i % 5 != 0))
put("big.txt", b"".join(b"%07d %s\n" % (i * 7919 % 1000003, r.choice(words)) for i in range(60000)))
put("sorted.a", b"".join(b"%05d a%d\n" % (i, i % 7) for i in range(0, 3000, 2)))
put("sorted.b", b"".join(b"%05d b%d\n" % (i, i % 5) for i in range(0, 3000, 3)))
put("dup.txt", b"".join(b"%s\n" % words[i // 3 % 90] for i in range(900)))
put("table.csv", b"id,name,value\n" + b"".join(b"%d,%s,%.3f\n" % (i, words[i % 400], r.random()) for i in range(500)))
put("tabs.txt", b"".join(b"%d\t%s\n" % (i, words[i]) for i in range(300)))
put("crlf.txt", b"one\r\ntwo\r\nthree\r\n")
put("zero.txt", b"\0".join(words) + b"\0")
put("utf8.txt", "größe ñandú 日本語 €\nzweite Zeile\n".encode() * 50)
put("empty", b"")
put("no-newline", b"last line has no end")
put("data.bin", r.randbytes(700001))
put("data2.bin", r.randbytes(1000) * 300)
put("names/a b/c'd\"e", b"odd name\n")
put("names/-n", b"dash\n")
os.symlink("big.txt", os.path.join(top, "link.txt"))
os.symlink("text", os.path.join(top, "link-dir"))
os.symlink("none", os.path.join(top, "dangling"))
END
}

# Each reads one file by its name, from standard input, and through a pipe, and must print the same from the mount.
while IFS='|' read -r name command; do
  try "each-$name" "$command \"\$D/big.txt\"; echo; $command <\"\$D/big.txt\"; echo; cat \"\$D/big.txt\" | $command; { $command <\"\$D/data2.bin\" || echo \$?; } 2>&1 | cksum"
done <<'END'
md5sum|md5sum
sha1sum|sha1sum
sha256sum|sha256sum
sha512sum|sha512sum
b2sum|b2sum
cksum|cksum
cksum-sm3|cksum -a sm3
sum|sum
wc|wc
wc-L|wc -lwmcL
cat|cat
cat-A|cat -A
head|head
head-c|head -c 100000
head-minus|head -n -59990
tail|tail
tail-c|tail -c 1000
tail-plus|tail -n +59000
tail-c-plus|tail -c +600000
sort|sort
sort-n|sort -k1,1nr
sort-u|sort -u -k2
uniq|uniq -c
tac|tac
nl|nl -ba
rev|rev
fold|fold -w 30
fmt|fmt
expand|expand
unexpand|unexpand -a
cut|cut -c1-4
cut-f|cut -d ' ' -f 2
od|od -An -tx1 -N 5000
od-j|od -c -j 290000
xxd|xxd -s 1000 -l 4000
hexdump|hexdump -C -n 3000
base64|base64
base32|base32 -w 40
basenc|basenc --z85 -i --base16
strings|strings -n 6
column|column -t
sed-n|sed -n '100,110p;$='
sed-s|sed 's/a/X/g;10q'
mawk|mawk '{ n[$2]++ } END { for (k in n) print k, n[k] | "sort" }'
gawk|gawk '{ s += $1 } END { print s, NR }'
grep-c|grep -c ab
grep-n|grep -n '^00001'
grep-o|grep -o '[0-9]*9 '
grep-v|grep -vE '[0-8]'
gzip|gzip -nc
xz|xz -1c
bzip2|bzip2 -c
shuf|shuf --random-source=/usr/bin/env
dd|dd bs=1000 status=none
split-n|split -b 100000 --filter=md5sum
perl-ne|perl -ne 'print if 5..9; END { print $. }'
END

try sums-many 'cd "$D" && find . -type f -print0 | sort -z | xargs -0 md5sum >"$W/sums" && md5sum -c "$W/sums" && sha256sum text/* | sha256sum'
try sums-c-inside 'cksum "$D"/text/*; cd "$D" && b2sum *.txt'
fails sums-wrong 'md5sum "$D/big.txt" | sed s/^./x/ >sums; md5sum -c sums; md5sum "$D/big.txt" | sed s/big/table/ >sums; md5sum -c sums'
fails cat-many 'cat "$D"/text/* "$D/none" "$D/text" "$D/dangling" "$D/empty"'
try cat-dash 'echo in | cat "$D/no-newline" - "$D/no-newline"; cat -n "$D/crlf.txt"; cat -s "$D/utf8.txt" | md5sum; cat <"$D/link.txt" | md5sum'
try cat-append 'cat "$D/empty" >>x; cat "$D/sorted.a" >>x; cat x "$D/sorted.b" >y'
refused cat-onto-itself 'cat "$D/big.txt" >>"$D/big.txt"'
try wc-many 'wc "$D"/text/*; wc -c <"$D/data.bin"; wc -l "$D/empty"; cd "$D/text" && wc -m *'
try wc-files0 'find "$D/text" -type f -print0 | sort -z >list; wc -l --files0-from=list; find "$D/text" -type f -print0 | sort -z | wc -c --files0-from=-'
try head-many 'head -n 2 "$D"/text/part0*; head -qc 10 "$D"/text/*; head -n 1 - <"$D/big.txt"; head -z -n 2 "$D/zero.txt" | tr "\0" "\n"'
try head-leaves-offset '{ head -n 3; echo --; head -n 2; } <"$D/sorted.a" | head -n 8; { head -c 10 >/dev/null; cat; } <"$D/sorted.a" | md5sum'
try tail-many 'tail -n 2 "$D"/text/part1*; tail -c 20 "$D/data2.bin" | od -c; tail -r "$D/x" 2>/dev/null; tail -n 1 "$D/no-newline"'
try tail-leaves-offset '{ read -r x; tail -n 1; } <"$D/sorted.a"; { head -c 7000 >/dev/null; tail -c 30; } <"$D/sorted.a"'
fails tail-f 'timeout 0.5 tail -f "$D/no-newline"; echo "$?"; timeout 0.5 tail -n 1 -F "$D/sorted.a" "$D/sorted.b"; [ $? = 0 ]'
try tail-pid 'sleep 0.2 & tail --pid=$! -s 0.1 -n 1 -f "$D/sorted.a"'
try sort-m 'sort -m "$D/sorted.a" "$D/sorted.b" | md5sum; sort -c "$D/sorted.a" && echo in order'
fails sort-c 'sort -c "$D/big.txt"'
try sort-o 'sort -o out "$D/big.txt"; sort -R --random-source="$D/data.bin" "$D/dup.txt" >random; sort -k2 -S 100k -T . "$D/big.txt" >merged'
try sort-many 'sort "$D"/text/* | md5sum; find "$D/text" -type f -print0 | sort -z | sort --files0-from=- -u | md5sum; sort -z "$D/zero.txt" | md5sum'
try sort-parallel 'sort --parallel=4 -n "$D/big.txt" "$D/big.txt" | md5sum; sort -t, -k3,3g "$D/table.csv" | head; sort -h -s "$D/tabs.txt" | md5sum'
refused sort-o-itself 'sort -o "$D/big.txt" "$D/big.txt"'
try uniq-d 'uniq -d "$D/dup.txt"; uniq -u "$D/dup.txt" out; uniq -D "$D/sorted.a" | wc -l; uniq -w 3 "$D/sorted.a"'
try comm 'comm "$D/sorted.a" "$D/sorted.b" | md5sum; comm -12 <(cut -d" " -f1 "$D/sorted.a") <(cut -d" " -f1 "$D/sorted.b") | md5sum; comm -3 - "$D/sorted.a" <"$D/sorted.b" | wc'
try join 'join "$D/sorted.a" "$D/sorted.b"; join -v1 - "$D/sorted.b" <"$D/sorted.a" | wc'
try paste 'paste "$D/sorted.a" "$D/sorted.b" | md5sum; paste -s -d, "$D/dup.txt" | md5sum; paste - - <"$D/tabs.txt"'
try cut-many 'cut -d, -f2-3 "$D/table.csv"; cut -b 1-3 "$D/utf8.txt" | od -c | head -n 3; cut -f2 "$D/tabs.txt" "$D/table.csv" | md5sum'
try tr 'tr a-z A-Z <"$D/dup.txt" | md5sum; tr -d "\r" <"$D/crlf.txt"; tr "\0" "\n" <"$D/zero.txt"; tr -sc a-z "\n" <"$D/text/part01.txt"'
try split 'split -l 10000 "$D/big.txt" lines.; split -n 3 "$D/data.bin" chunk.; split -n l/4 -d "$D/big.txt" even.; split -C 9000 - small. <"$D/sorted.a"; split -n r/2 <"$D/sorted.b"'
try csplit 'csplit -s "$D/sorted.a" /00100/ "{3}" 500; csplit -s -f p - 10 20 <"$D/sorted.b"'
try tee 'tee copy <"$D/data.bin" | cksum; tee -a copy <"$D/empty"'
refused tee-onto 'tee "$D/new" "$D/big.txt" <"$D/sorted.a" | md5sum'
try shuf-e 'shuf -n 5 --random-source="$D/data.bin" "$D/dup.txt"; shuf --random-source="$D/data.bin" -i 1-20; shuf -r -n 30 --random-source=<(cat "$D/data.bin") "$D/tabs.txt"'
try cmp 'cmp "$D/big.txt" "$D/link.txt" && echo same; cmp -n 100 "$D/data.bin" "$D/data.bin"; cmp - "$D/big.txt" <"$D/big.txt"; cp "$D/data.bin" c && cmp c "$D/data.bin"'
fails cmp-differs 'cmp "$D/sorted.a" "$D/sorted.b"; cmp -l "$D/sorted.a" "$D/sorted.b" | md5sum; cmp -s -i 10:20 "$D/data.bin" "$D/data2.bin"; echo $?; cmp "$D/empty" "$D/big.txt"'
fails diff 'diff "$D/sorted.a" "$D/sorted.b" | md5sum; diff -u --label a --label b "$D/text/part01.txt" "$D/text/part02.txt"; diff -q "$D/data.bin" "$D/data2.bin"; diff - "$D/dup.txt" <"$D/tabs.txt" | md5sum'
try diff-r 'cp -r "$D" copy; diff -r --no-dereference "$D" copy && echo same; rm -r copy'
fails diff-r-differs 'cp -r "$D" copy; echo >>copy/big.txt; rm copy/dup.txt; mkdir copy/new; diff -r "$D" copy; diff -rq copy "$D"; diff -rN "$D" copy | md5sum; rm -r copy; false'
fails diff-u-times 'diff -u "$D/sorted.a" "$D/dup.txt" | head -n 1; diff3 -m "$D/sorted.a" "$D/sorted.b" "$D/dup.txt" | md5sum; sdiff -s "$D/sorted.a" "$D/sorted.b" | md5sum; false'
try dd 'for a in "bs=1 skip=100 count=20" "bs=4k skip=3 count=2" "bs=1M" "ibs=333 obs=1000 count=100 conv=sync" "bs=100 count=1500 iflag=skip_bytes,count_bytes skip=12345" "bs=64k iflag=fullblock" "bs=4096 conv=swab,notrunc"; do
  dd status=none if="$D/data.bin" $a | md5sum; dd status=none $a <"$D/data.bin" | md5sum; dd status=none if="$D/data.bin" of=out $a; done'
try dd-status 'dd if="$D/data.bin" of=out bs=10000 2>&1 | sed "s/copied,.*//"; dd if="$D/big.txt" conv=ucase status=none | md5sum; dd if="$D/data.bin" iflag=nofollow,noatime,nonblock,nocache bs=5000 status=none | md5sum'
try dd-shares-offset '{ dd bs=1000 count=1 status=none; dd bs=500 skip=2 count=1 status=none; cat; } <"$D/data.bin" | md5sum'
fails dd-direct 'dd if="$D/data.bin" bs=4096 count=20 iflag=direct status=none | md5sum; dd if="$D/data.bin" iflag=directory; dd if="$D/link.txt" iflag=nofollow'
refused dd-of 'dd if=/dev/zero of="$D/data.bin" bs=1 count=1; dd if=/dev/zero of="$D/new" count=1'
try od-many 'od -An -tx2 "$D/sorted.a" "$D/sorted.b" | md5sum; od -w8 -v -j 700 "$D/sorted.a" "$D/data.bin" | md5sum; xxd -p "$D/crlf.txt"; xxd -r -p <(xxd -p "$D/utf8.txt"); xxd -i "$D/crlf.txt"; xxd -s -20 "$D/data.bin"'
try base64-d 'base64 "$D/data.bin" >x; base64 -d x | cmp - "$D/data.bin" && echo same; base64 -w0 <"$D/utf8.txt"'
try gzip 'gzip -c "$D/data2.bin" >a.gz; zcat a.gz | cmp - "$D/data2.bin"; gzip -9nc "$D"/text/* | zcat | md5sum; xz -c "$D/dup.txt" | xzcat | md5sum; rm a.gz; echo done'
refused gzip-inplace 'gzip "$D/big.txt"; bzip2 "$D/big.txt"; xz "$D/big.txt"'
try xargs 'xargs -a "$D/tabs.txt" -n 20 echo; xargs -a "$D/zero.txt" -0 -n 50 echo; ls "$D/text" | xargs -P 4 -I{} wc -c "$D/text/{}" | sort'
try numfmt-seq 'numfmt --to=iec <(cut -c1-7 "$D/big.txt" | head); factor <(head -n 5 "$D/sorted.a" | cut -c1-5) 2>&1; tsort "$D/tabs.txt" | md5sum; ptx "$D/crlf.txt"; look ab "$D/dup.txt"; true'
try iconv 'iconv -f utf-8 -t utf-16 "$D/utf8.txt" | md5sum; iconv -t latin1//TRANSLIT <"$D/utf8.txt" | md5sum'
try od-names 'cat "$D/names/a b/c'"'"'d\"e" "$D/names/-n"; cd "$D/names" && cat ./-n -- -n'

try sed-many 'sed -n "1p;\$p" "$D"/text/part0*; sed -s -n "1p;\$p" "$D"/text/part0*; sed -n "1F;2=" "$D/crlf.txt"; sed "2r $D/crlf.txt" "$D/utf8.txt" | head; sed -z "s/\n/,/g" "$D/dup.txt" | md5sum'
try sed-f 'echo "s/one/1/;w out" >script; sed -f script "$D/crlf.txt"; sed --debug -n "p" "$D/crlf.txt"; sed "R $D/crlf.txt" "$D/dup.txt" | head -n 12'
refused sed-i '{ sed -i s/a/b/ "$D/big.txt"; cd "$D" && sed -i.bak s/a/b/ dup.txt; } 2>&1 | sed "s/sed......:/sedX:/"'
try awk-files 'for a in mawk gawk; do $a "FNR == 1 { print FILENAME } FNR == NR { a[\$1] = \$2; next } \$1 in a { print \$0, a[\$1] }" "$D/sorted.a" "$D/sorted.b"; done'
try awk-getline 'for a in mawk gawk; do $a -v f="$D/dup.txt" "BEGIN { while ((getline x < f) > 0) n++; print n; close(f); getline x < f; print x; \"wc -l <\" f | getline y; print y }"; done'
try awk-csv 'gawk -F, -v OFS=: "NR > 1 { s[substr(\$2, 1, 1)] += \$3 } END { for (k in s) print k, s[k] }" "$D/table.csv" | sort; gawk "BEGINFILE { if (ERRNO) nextfile } ENDFILE { print FILENAME, FNR }" "$D"/text/* "$D/none"; mawk -f <(echo "{ print NF }") "$D/text/part03.txt" | sort -n | uniq -c'
fails awk-none 'gawk 1 "$D/none" "$D/text"; echo $?; mawk 1 "$D/none"'

try grep-r 'grep -r ab "$D" | sort | md5sum; grep -rl "one" "$D" | sort; grep -rc abc "$D/text" | sort; cd "$D" && grep -rn "line" . | sort | head; grep -r line | sort | md5sum'
fails grep-R 'grep -R zweite "$D" | sort; grep -R ab "$D/link-dir" | sort | md5sum; grep -r xyzzy "$D/link-dir"'
try grep-options 'grep -zc a "$D/zero.txt"; grep -a -c a "$D/data.bin"; grep -L ab "$D"/text/* ; grep -m 3 -n a "$D"/text/part0*; grep -A2 -B1 00100 "$D/sorted.a"; grep -w -i ONE "$D/crlf.txt"; grep -b -o two "$D/crlf.txt"; grep -P "\d+9\s" "$D/sorted.a" | head -n 3; grep -q a "$D/big.txt" && echo found'
try grep-f 'head -n 20 "$D/dup.txt" >patterns; grep -cFf patterns "$D/big.txt"; grep -f "$D/crlf.txt" "$D/crlf.txt"; grep --include="part1*" -rhc a "$D/text" | sort -n; grep --exclude-dir=text -rl a "$D" | sort; grep -c "" "$D"/*.txt'
try grep-stdin 'grep -n 5 <"$D/sorted.a" | md5sum; grep -H two - <"$D/crlf.txt"; { grep -m 1 00002; grep -m 1 0; } <"$D/sorted.a"; grep -d skip a "$D"/sorted* | md5sum'
fails grep-none 'grep x "$D/none" "$D/text" "$D/dangling"; echo $?; grep -s x "$D/none"; echo $?; grep xyzzy "$D/big.txt"'
fails egrep-zgrep 'grep -E "(ab|cd)+e?" "$D/text/part05.txt" | md5sum; zgrep -c a "$D/dup.txt"; grep -c -U "two$" "$D/crlf.txt"'

if have rg; then
  try rg 'rg ab "$D" --sort path | md5sum; rg -c ab "$D/text" | sort; rg -l line "$D" | sort; cd "$D" && rg -n line | sort | md5sum'
  try rg-mmap 'for o in --mmap --no-mmap "-j1" "-j4 --mmap"; do rg $o -c 9 "$D/big.txt" "$D/sorted.a" | sort; rg $o -on "ab+" "$D" | sort | md5sum; done'
  try rg-files 'rg --files "$D" | sort; rg --files -g "part0*" "$D" | sort; { rg --files -L "$D" 2>&1 || echo $?; } | sort'
  try rg-stdin 'rg -n 00100 <"$D/sorted.a"; rg -c 5 - <"$D/big.txt"; rg -z -c a "$D/dup.txt"; rg -a -c a "$D/data.bin"; rg -U "one\r\ntwo" "$D/crlf.txt"; rg --stats -q ab "$D/dup.txt" | grep matches'
  try rg-json 'rg --json two "$D/crlf.txt" | grep -v elapsed; rg --passthru two "$D/crlf.txt"; rg -A1 -B1 --heading two "$D/crlf.txt"; rg --vimgrep two "$D/crlf.txt"; rg -uuu -l two "$D" | sort'
  fails rg-none 'rg x "$D/none"; rg xyzzy "$D"'
fi
compare
