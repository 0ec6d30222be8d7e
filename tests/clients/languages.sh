#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Other languages' interpreters and compilers, editors, web servers, and tools for pictures, sounds and archives.
. "$(dirname "$0")/harness.bash"
pack_options=(--partitions 8)
data() {
  make_tree "$1"
  mkdir -p "$1/web/sub" "$1/go/part" "$1/rust/src" "$1/lang" "$1/cmake/src" "$1/archives"
  printf '<html><head><title>T</title></head><body><h1>Head</h1><a href="sub/">sub</a> <a href="big.bin">big</a></body></html>\n' >"$1/web/index.html"
  echo '<p>below</p>' >"$1/web/sub/index.html"
  head -c 3000001 /dev/zero | openssl enc -aes-128-ctr -pass pass:x -nosalt >"$1/web/big.bin" 2>/dev/null
  printf '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY e SYSTEM "entity.txt">]>\n<a><b id="1">x</b><b id="2">&e;</b></a>\n' >"$1/lang/doc.xml"
  echo entity >"$1/lang/entity.txt"
  printf 'module example.org/m\n\ngo 1.18\n' >"$1/go/go.mod"
  printf 'package main\n\nimport (\n\t_ "embed"\n\t"fmt"\n\t"example.org/m/part"\n)\n\n//go:embed text.txt\nvar text string\n\nfunc main() { fmt.Println(part.F(), text) }\n' >"$1/go/main.go"
  echo embedded >"$1/go/text.txt"
  printf 'package part\n\nfunc F() int { return 42 }\n' >"$1/go/part/part.go"
  printf '[package]\nname = "m"\nversion = "0.1.0"\nedition = "2021"\n' >"$1/rust/Cargo.toml"
  printf 'mod other;\nfn main() { println!("{} {}", other::f(), include_str!("text.txt")); }\n' >"$1/rust/src/main.rs"
  printf 'pub fn f() -> i32 { 42 }\n' >"$1/rust/src/other.rs"
  echo included >"$1/rust/src/text.txt"
  printf 'cmake_minimum_required(VERSION 3.10)\nproject(m C)\nconfigure_file(src/in.h.in out.h)\nfile(GLOB_RECURSE S CONFIGURE_DEPENDS src/*.c)\nadd_executable(m ${S})\ntarget_include_directories(m PRIVATE ${CMAKE_BINARY_DIR})\ninstall(TARGETS m)\ninstall(DIRECTORY src DESTINATION share)\n' >"$1/cmake/CMakeLists.txt"
  printf '#define N @PROJECT_NAME@\n' >"$1/cmake/src/in.h.in"
  printf '#include <stdio.h>\n#include "out.h"\nint g(void);\nint main(void) { printf("%%d\\n", g()); }\n' >"$1/cmake/src/a.c"
  printf 'int g(void) { return 7; }\n' >"$1/cmake/src/b.c"
  printf 'return { f = function() return 42 end }\n' >"$1/lang/mod.lua"
  printf 'module M; def self.f = 42; end\n' >"$1/lang/mod.rb"
  printf '(define-module (mod) #:export (f))\n(define (f) 42)\n' >"$1/lang/mod.scm"
  printf '<?php function f() { return 42; }\n' >"$1/lang/mod.php"
  printf 'proc f {} { return 42 }\n' >"$1/lang/mod.tcl"
  printf 'let f () = 42\n' >"$1/lang/mod.ml"
  printf 'graph G { a -- b; b -- c }\n' >"$1/lang/g.dot"
  if have identify; then # what is called convert alone may be anything
    convert -size 64x48 gradient:red-blue "$1/lang/p.png"
    convert "$1/lang/p.png" "$1/lang/p.gif"
    convert "$1/lang/p.png" "$1/lang/p.tiff"
  fi
  have sox && sox -n -r 8000 -b 16 "$1/lang/s.wav" synth 0.5 sine 440
  (cd "$1" && tar cf archives/a.tar lang && gzip -kn archives/a.tar && xz -k archives/a.tar && zstd -q archives/a.tar &&
    zip -qr archives/a.zip lang)
  have 7z && (cd "$1" && 7z a -bd archives/a.7z lang >/dev/null)
  have mksquashfs && mksquashfs "$1/lang" "$1/archives/a.squashfs" -quiet -no-progress >/dev/null
  have genisoimage && genisoimage -quiet -R -o "$1/archives/a.iso" "$1/lang" 2>/dev/null
  return 0
}
have lua5.4 && try lua 'cd "$D" && lua5.4 - <<"END"
package.path = "lang/?.lua"
print(require("mod").f())
local f = io.open("sizes/text-4097.bin", "rb"); print(f:seek("end"), f:seek("set", 100), #f:read(50), #f:read("a")); f:close()
local n = 0; for l in io.lines("lang/doc.xml") do n = n + #l end; print(n)
print(io.open("none")); print(io.open("lang/g.dot", "w")); print(os.rename("lang/g.dot", "x")); print(os.remove("lang/g.dot"))
local p = io.popen("cat lang/g.dot"); print(p:read("a")); print(p:close()); dofile("lang/mod.lua"); print(loadfile("none"))
END'
have ruby && try ruby 'ruby -I "$D/lang" -e "
require %q(mod); puts M.f
Dir.chdir(ENV[%q(D)])
puts Dir.glob(%q(**/*)).sort, Dir.children(%q(lang)).sort.inspect, Dir[%q(*/{a,m}*)].sort
puts File.size(%q(web/big.bin)), File.read(%q(lang/g.dot)), IO.readlines(%q(lang/doc.xml)).size, File.stat(%q(lang)).directory?
File.open(%q(sizes/text-4097.bin)) { |f| f.seek(-5, IO::SEEK_END); p f.read, f.pos, f.eof? }
begin; File.write(%q(lang/g.dot), %q(x)); rescue => e; p e.class; end
begin; File.read(%q(none)); rescue => e; p e.class; end
puts %x(wc -c <lang/g.dot), IO.popen([%q(cat), %q(lang/g.dot)]).read, File.realpath(%q(links/chain))
IO.copy_stream(%q(web/big.bin), ENV[%q(W)] + %q(/copy))
r = fork { STDOUT.puts File.read(%q(lang/entity.txt)) }; Process.wait r
require %q(find); puts Find.find(%q(.)).to_a.sort
puts (1..8).map { |i| Thread.new { File.binread(%q(web/big.bin)).sum } }.map(&:value).uniq.size
pid = spawn(%q(cat), in: %q(lang/g.dot), chdir: %q(.)); Process.wait pid
"'
have tclsh && try tcl 'tclsh <<"END"
cd $env(D)
source lang/mod.tcl; puts [f]
puts [lsort [glob -nocomplain */*]]; puts [file size web/big.bin]; set f [open sizes/text-4097.bin rb]; seek $f 4000; puts [string length [read $f]]; puts [tell $f]; close $f
puts [catch {open lang/g.dot w} e]$e; puts [catch {open none} e]$e; puts [exec cat < lang/g.dot]; file copy lang/mod.tcl $env(W)/copied
puts [file normalize links/dir/..]; puts [exec cat lang/g.dot | wc -c]
foreach x {lang web none} { puts [file isdirectory $x][file readable $x][file writable $x][file exists $x] }
END'
have tclsh && try tcl-directory 'echo "puts [catch {file copy $D/lang $W/copied} e]; puts [string map [list $D D] \$e]" | tclsh'
have php && try php 'php -r "chdir(getenv(\"D\")); require \"lang/mod.php\"; echo f(), \"\n\", filesize(\"web/big.bin\"), md5_file(\"web/big.bin\"), \"\n\"; print_r(scandir(\"lang\")); print_r(glob(\"*/*\")); foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator(\".\")) as \$f) \$a[] = (string)\$f; sort(\$a); print_r(\$a); var_dump(@file_put_contents(\"lang/g.dot\", 1), @fopen(\"none\", \"r\"), is_writable(\"lang\"), realpath(\"links/chain\")); readfile(\"lang/g.dot\"); copy(\"web/big.bin\", getenv(\"W\").\"/c\");" 2>&1'
have guile && try guile 'guile --no-auto-compile -L "$D/lang" -c "(use-modules (mod) (ice-9 ftw) (ice-9 rdelim)) (display (f)) (chdir (getenv \"D\")) (display (scandir \"lang\")) (display (call-with-input-file \"lang/g.dot\" read-line)) (display (stat:size (stat \"web/big.bin\")))"'
try perl-more 'cd "$D" && perl -MFile::Find -MFile::Copy -MIO::File -MCwd=abs_path -e "
find({wanted => sub { push @a, \$File::Find::name }, no_chdir => 0}, \".\"); print join(\"\n\", sort @a), \"\n\"; copy(\"web/big.bin\", \"\$ENV{W}/c\") or die; print abs_path(\"links/chain\"), \"\n\"; open F, \"<:encoding(UTF-8)\", \"lang/doc.xml\"; print <F>; print join(\" \", sort glob(\"*/{a,d}*\")), -s \"web/big.bin\", -M \"web/big.bin\" > -1, \"\n\"; open P, \"-|\", \"cat\", \"lang/g.dot\"; print <P>; open D, \"<&\", \*F; sysopen X, \"none\", 0 or print \$!; mkdir \"x\" or print \$!, \"\n\"; utime 1, 1, \"lang/g.dot\" or print \$!; print stat(_) ? 1 : 0; \$/ = undef; open G, \"lang/g.dot\"; print length <G>, tell G; print \"\n\", readlink(\"links/chain\")"'

have xmlstarlet && try xmlstarlet 'xmlstarlet sel -t -v "count(//b)" -n -m //b -v @id -n "$D/lang/doc.xml"; xmlstarlet val -e "$D/lang/doc.xml"; xmlstarlet fo "$D/lang/doc.xml"; cd "$D/lang" && xmlstarlet el -v doc.xml; xmlstarlet ls . | sed "s/ 20.*Z / /" | sort'
have xmllint && try xmllint 'xmllint --noent "$D/lang/doc.xml"; cd "$D" && xmllint --xpath "//b[2]" --noent lang/doc.xml'
try jq 'echo "{\"a\": [1, 2, {\"b\": null}]}" >x.json; jq -R . "$D/lang/g.dot"; jq -Rs length "$D/lang/doc.xml" "$D/lang/entity.txt"; jq -n --rawfile t "$D/lang/g.dot" "\$t|length"; jq -n --slurpfile s x.json --rawfile t "$D/lang/entity.txt" "[\$s, \$t]"'
have identify && try imagemagick 'for f in png gif tiff; do identify -format "%m %w %h %[colorspace] %#\n" "$D/lang/p.$f"; convert "$D/lang/p.$f" -resize 50% -strip "out.ppm"; md5sum out.ppm; done; convert "$D/lang/p.png" "$D/lang/p.gif" +append ppm:- | md5sum; convert - gray:- <"$D/lang/p.png" | md5sum; mogrify -path . -format bmp "$D/lang/*.png" && md5sum p.bmp; compare -metric AE "$D/lang/p.png" "$D/lang/p.tiff" null: 2>&1'
have sox && try sox 'soxi "$D/lang/s.wav"; sox "$D/lang/s.wav" -n stat 2>&1; sox "$D/lang/s.wav" -t raw - reverse | md5sum; sox - -t raw - <"$D/lang/s.wav" | md5sum; cd "$D/lang"; sox s.wav s.wav -t raw - | md5sum; play -n -q 2>&1 | head -0'
have lynx && try lynx 'lynx -dump "$D/web/index.html"; cd "$D/web" && lynx -dump -listonly ./index.html; lynx -source "file://$D/web/sub/index.html"; lynx -dump "file://$D/lang" | sed "s/[0-9]* [A-Z][a-z][a-z] .*//" | head -30'
have 7z && try 7z 'for f in a.7z a.zip a.tar a.iso a.squashfs; do 7z l -ba "$D/archives/$f"; 7z t "$D/archives/$f" | grep -v Mem | tail -8; 7z x -so "$D/archives/$f" | md5sum; done; 7z a -bd new.7z "$D/lang" >/dev/null; 7z l -ba new.7z | sort; rm new.7z; 7z h "$D/web/big.bin" | tail -12; cd "$D" && 7z x -bd -o"$W/x" archives/a.zip >/dev/null'
try xz-zstd 'cd "$D/archives" && xz -t a.tar.xz && xz -lv a.tar.xz && xzcat a.tar.xz | md5sum && zstd -t a.tar.zst 2>&1 && zstd -lv a.tar.zst && zstdcat a.tar.zst | md5sum; gzip -l a.tar.gz; zcat a.tar.gz | md5sum; xz -T2 -kc "$D/web/big.bin" | md5sum; zstd -T2 -qc "$D/web/big.bin" | zstd -dc | md5sum; zstd --patch-from="$D/lang/p.png" -qc "$D/lang/p.gif" | wc -c; zstd -q --train "$D"/train/*/* -o dict 2>&1 | tail -1; xzgrep -c Entity a.tar.xz; zgrep -a -c ENTITY a.tar.gz; zdiff a.tar.gz a.tar.xz; xz -dk --stdout <a.tar.xz | wc -c'
try unzip 'unzip -l "$D/archives/a.zip" | sort; unzip -tq "$D/archives/a.zip"; unzip -p "$D/archives/a.zip" lang/g.dot; zipinfo "$D/archives/a.zip" | tail -1; unzip -q "$D/archives/a.zip" -d x'
have genisoimage && try iso 'isoinfo -R -f -i "$D/archives/a.iso"; genisoimage -quiet -R -o x.iso "$D/lang" && isoinfo -R -f -i x.iso && rm x.iso'
have mke2fs && try mke2fs 'mke2fs -q -t ext4 -d "$D/lang" img 4M && debugfs -R "ls -p /" img 2>/dev/null | cut -d/ -f4- | sort; debugfs -R "cat /g.dot" img 2>/dev/null; rm img'
have bsdtar && try bsdtar 'bsdtar cf - -C "$D" lang sizes | bsdtar tvf - | sort; bsdtar tf "$D/archives/a.7z"; bsdtar xOf "$D/archives/a.iso" G.DOT "*g.dot" 2>/dev/null; bsdtar cf - "@$D/archives/a.zip" | tar tf -; bsdcat "$D/archives/a.tar.xz" | md5sum; bsdtar xf "$D/archives/a.tar.zst"; bsdcpio -o </dev/null 2>/dev/null | wc -c'

have cmake && try cmake 'cmake -G Ninja -S "$D/cmake" -B b >/dev/null && ninja -C b | tail -1; b/m; cat b/out.h; ninja -C b; DESTDIR=$W/i cmake --install b | sed "s/.*Installing/Installing/" | sort; cmake -E md5sum "$D/cmake/src/a.c"; cmake -E tar tf "$D/archives/a.zip"; cmake -E copy_directory "$D/lang" copied; cmake -E compare_files "$D/lang/g.dot" copied/g.dot; rm -rf b'
have cmake && try cmake-make 'cd "$D/cmake" && cmake -S . -B "$W/b" >/dev/null && make -s -C "$W/b" 2>&1 | grep -v "^\[" ; "$W/b/m"; rm -rf "$W/b"'

have vim && try vim 'vim -u NONE -es -c "%s/graph/GRAPH/" -c "w! $W/o" -c "q!" "$D/lang/g.dot" </dev/null; cat o; vim -u NONE -es -c "echo getfsize(\"$D/web/big.bin\") glob(\"$D/*\") filewritable(\"$D/lang/g.dot\") readfile(\"$D/lang/g.dot\")" -c "q!" 2>&1; vim -u NONE -es -c "set noswapfile" -c "e $D/lang/doc.xml" -c "r $D/lang/entity.txt" -c "w $W/p" -c "qa!"; cat p; cd "$D" && vim -u NONE -es -c "vimgrep /ENTITY/j **/*.xml" -c "call writefile(map(getqflist(), \"bufname(v:val.bufnr).v:val.lnum\"), \"$W/q\")" -c "qa!"; cat "$W/q"'
have vim && try vim-refused 'vim -u NONE -es -c "s/graph/x/" -c "w" -c "q!" "$D/lang/g.dot"; echo $?; vim -u NONE -es -c "w! $D/new" -c "q!"; echo $?'
have ed && try ed 'printf "%s\n" ",p" "s/graph/G/" "w o" "r $D/lang/entity.txt" "w o2" "w" Q | ed "$D/lang/g.dot"; cat o o2'
have ctags && try ctags 'ctags -R -f - --sort=yes "$D/cmake" "$D/go"; cd "$D" && ctags -R -x cmake'
have cscope && try cscope 'cscope -b -R -s "$D/cmake" && cscope -d -L1g'
have dot && try dot 'dot -Tplain "$D/lang/g.dot"; neato -Tdot "$D/lang/g.dot" | wc -l; dot -Tplain <"$D/lang/g.dot"; cd "$D/lang" && gvpr "N{print(name)}" g.dot'
have bc && try bc 'echo "1+1" >x; bc -q x "$D/lang/none" </dev/null 2>&1; dc "$D/lang/none" 2>&1; echo'
have tree && try tree 'tree -a "$D"; tree -psugD --timefmt %s "$D/lang"; tree -J --du -s "$D/sizes"; cd "$D" && tree -d; tree -L 1 -F --dirsfirst; tree -l links 2>&1; tree --fromfile "$D/lang/g.dot"'
try gdb 'gcc -g -o m "$D/cmake/src/a.c" "$D/cmake/src/b.c" -I. -include /dev/null -x c - <<<"" -DX 2>/dev/null || { echo "#define N 1" >out.h; gcc -g -I. -o m "$D/cmake/src/a.c" "$D/cmake/src/b.c"; }; gdb -q -batch -ex "list main" -ex "break g" -ex run -ex bt -ex "info source" ./m 2>&1 | grep -v "Thread debugging\|Using host\|process\|warning"; rm -f m'
have pigz && try pigz 'pigz -kc -p2 "$D/web/big.bin" | pigz -dc | md5sum; pigz -l "$D/archives/a.tar.gz"; lz4 -qc "$D/web/big.bin" | lz4 -qdc | md5sum; lzip -c "$D/lang/g.dot" | lzip -dc'

serve() { # after COMMAND is started in the background: fetches; PORT
  cat <<'END'
fetch() {
  for i in $(seq 100); do curl -s -o /dev/null "http://127.0.0.1:$port/" && break; sleep 0.1; done
  for p in / /index.html /sub/ /sub /none /big.bin /../lang/g.dot; do
    curl -s --path-as-is -o out -w "%{http_code} %{size_download} %{content_type}\n" "http://127.0.0.1:$port$p"; md5sum <out | sed "s|^|$p |"
  done >results
  for p in 4 5 6 7 8; do curl -s "http://127.0.0.1:$port/big.bin" | md5sum & done | sort -u
  curl -s -r 1000000-1999999 "http://127.0.0.1:$port/big.bin" | md5sum
  curl -s -r 5-9,2999990- "http://127.0.0.1:$port/big.bin" | wc -c | cut -c1
  curl -sI "http://127.0.0.1:$port/big.bin" | grep -i "length\|modified\|accept"
  curl -s -z "$(curl -sI "http://127.0.0.1:$port/big.bin" | sed -n 's/[Ll]ast-[Mm]odified: //p' | tr -d '\r')" -o /dev/null -w "%{http_code}\n" "http://127.0.0.1:$port/big.bin"
  sed "s/$port/PORT/" results | grep -v "^/none\|^404\|^/sub \|^301\|^/../"
  rm -f out results
}
port=$("$PYTHON" "$C/../setup/ports.py" 1)
END
}
have lighttpd curl && try lighttpd - <<END
$(serve)
for b in sendfile writev; do
cat >"\$TMPDIR/l.conf" <<C
server.document-root = "\$D/web"
server.port = \$port
server.bind = "127.0.0.1"
server.network-backend = "\$b"
index-file.names = ("index.html")
mimetype.assign = (".html" => "text/html")
C
lighttpd -D -f "\$TMPDIR/l.conf" 2>/dev/null &
pid=\$!
fetch
kill \$pid; wait \$pid || :
done
rm -f "\$TMPDIR/l.conf"
END
have curl && try http.server - <<END
$(serve)
"\$PYTHON" -m http.server --bind 127.0.0.1 --directory "\$D/web" \$port >/dev/null 2>&1 &
pid=\$!
fetch
kill \$pid; wait \$pid || :
END
have curl && try http.server-inside - <<END
$(serve)
(cd "\$D/web" && exec "\$PYTHON" -m http.server --bind 127.0.0.1 \$port >/dev/null 2>&1) &
pid=\$!
fetch
kill \$pid; wait \$pid || :
END
have node curl && try node-server - <<END
$(serve)
node -e "
const fs = require('fs'), http = require('http'), path = require('path');
http.createServer((q, r) => { let p = process.env.D + '/web' + q.url; fs.stat(p, (e, s) => { if (e) { r.statusCode = 404; return r.end(); }
 if (s.isDirectory()) p += '/index.html'; r.setHeader('content-length', fs.statSync(p).size); fs.createReadStream(p).pipe(r); }); }).listen(\$port, '127.0.0.1');
" &
pid=\$!
fetch
kill \$pid; wait \$pid || :
END
have curl && try curl-file 'curl -s "file://$D/web/big.bin" | md5sum; curl -s -r 10-20 "file://$D/web/big.bin" | md5sum; curl -sI "file://$D/web/big.bin" | grep -v Date; curl -s "file://$D/none"; echo $?; curl -s -T "$D/web/big.bin" "file://$W/up"'
compare
