#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Larger programs on a dataset: git in a repository that lies there, compilers and make on sources there, programs and
# shared libraries that lie there, SQLite, Java, ffmpeg, binutils and gdb, node, man and less.
. "$(dirname "$0")/harness.bash"

sources() { # DIRECTORY
  mkdir -p "$1/include/sub" "$1/src" "$1/bin" "$1/lib"
  printf '#ifndef G\n#define G\nint greet(const char *who);\n#define TIMES 2\n#endif\n' >"$1/include/greet.h"
  printf '#include "../greet.h"\n#include <stdio.h>\n#define DEEP 7\n' >"$1/include/sub/deep.h"
  printf '#include "sub/deep.h"\nint greet(const char *who) { return printf("hello %%s %%d\\n", who, DEEP); }\n' >"$1/src/greet.c"
  printf '#include <greet.h>\nint main(int n, char **v) { for (int i = 0; i < TIMES; i++) greet(v[n - 1]); return 3; }\n' >"$1/src/main.c"
  printf 'SRC ?= .\nOBJ = main.o greet.o\nall: hello\nhello: $(OBJ)\n\t$(CC) -o $@ $^\n%%.o: $(SRC)/src/%%.c\n\t$(CC) -MMD -I$(SRC)/include -c -o $@ $<\nlist:\n\t@echo $(wildcard $(SRC)/src/*.c) $(notdir $(realpath $(SRC)/src/../include))\n-include $(SRC)/none.mk\ninclude $(SRC)/rules.mk\n' >"$1/Makefile"
  printf 'rule:\n\t@echo a rule; cat $(SRC)/src/main.c | wc -l; pwd | wc -l\n' >"$1/rules.mk"
  cat >"$1/src/read.cc" <<'END'
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <vector>
namespace fs = std::filesystem;
int main(int, char **v) {
  std::ifstream in(std::string(v[1]) + "/src/greet.c");
  std::string line;
  while (std::getline(in, line)) std::cout << line.size() << ' ' << in.tellg() << '\n';
  in.clear();
  in.seekg(5);
  std::cout << char(in.get()) << in.rdbuf()->in_avail() << '\n';
  std::ifstream bin(std::string(v[1]) + "/blob", std::ios::binary | std::ios::ate);
  std::vector<char> all(bin.tellg());
  bin.seekg(0);
  bin.read(all.data(), all.size());
  unsigned sum = 0;
  for (unsigned char c : all) sum = sum * 31 + c;
  std::cout << all.size() << ' ' << sum << ' ' << bin.gcount() << '\n';
  std::vector<std::string> names;
  for (auto &e : fs::recursive_directory_iterator(v[1], fs::directory_options::skip_permission_denied))
    if (e.path().string().find("/.git") == std::string::npos && e.path().string().find("repo") == std::string::npos)
      names.push_back(e.path().string() + (e.is_regular_file() ? " f " + std::to_string(e.file_size()) : " d") +
                      (e.is_symlink() ? " l" : ""));
  std::sort(names.begin(), names.end());
  for (auto &n : names) std::cout << n << '\n';
  std::error_code ec;
  std::cout << fs::exists(std::string(v[1]) + "/none") << fs::canonical(std::string(v[1]) + "/src/../lib") << '\n';
  fs::create_directory(std::string(v[1]) + "/new", ec);
  std::cout << ec.message() << '\n';
  fs::remove(std::string(v[1]) + "/blob", ec);
  std::cout << ec.message() << '\n';
  std::ofstream out(std::string(v[1]) + "/blob");
  std::cout << out.is_open() << fs::equivalent(std::string(v[1]) + "/src", std::string(v[1]) + "/lib/../src")
            << int(fs::status(v[1]).permissions()) << '\n';
  fs::copy(std::string(v[1]) + "/include", "copied", fs::copy_options::recursive);
  fs::copy_file(std::string(v[1]) + "/blob", "blob");
  fs::current_path(v[1]);
  std::cout << fs::current_path() << std::ifstream("Makefile").good() << '\n';
  std::wifstream wide("src/main.c");
  std::wstring w;
  std::getline(wide, w);
  std::cout << w.size() << '\n';
}
END
  printf 'int answer(void) { return 42; }\n' >"$work/answer.c"
  printf '#include <dlfcn.h>\n#include <stdio.h>\nint answer(void);\nint main(int n, char **v) {\n  void *l = n > 1 ? dlopen(v[1], RTLD_NOW) : 0;\n  int (*f)(void) = l ? (int (*)(void))dlsym(l, "answer") : answer;\n  if (!f) return puts("none"), 1;\n  return printf("%%d\\n", f()) != 3;\n}\n' >"$work/use.c"
  gcc -shared -fPIC -o "$1/lib/libanswer.so" "$work/answer.c"
  gcc -o "$1/bin/use" "$work/use.c" -L"$1/lib" -lanswer -ldl
  gcc -o "$1/bin/use-origin" "$work/use.c" -L"$1/lib" -lanswer -ldl -Wl,-rpath,'$ORIGIN/../lib'
  gcc -g -o "$1/bin/hello" -I"$1/include" "$1/src/main.c" "$1/src/greet.c"
  ar rc "$1/lib/libanswer.a" "$1/lib/libanswer.so"
}
repository() { # DIRECTORY
  local i
  export GIT_AUTHOR_DATE='2020-01-02T03:04:05Z' GIT_COMMITTER_DATE='2020-01-02T03:04:05Z'
  git -c init.defaultBranch=main init -q "$1"
  git -C "$1" config user.name Somebody
  git -C "$1" config user.email somebody@example.org
  for i in 1 2 3 4 5 6; do
    mkdir -p "$1/dir$((i % 3))"
    seq $((i * 100)) >"$1/dir$((i % 3))/file$i"
    seq 3 $((i * 10)) >"$1/changing"
    ln -sf "dir1" "$1/link"
    git -C "$1" add -A
    git -C "$1" commit -qm "Change $i"
    if [ $i = 3 ]; then
      git -C "$1" repack -qad
      git -C "$1" branch side
      git -C "$1" tag -m three v3
    fi
  done
  git -C "$1" pack-refs --all
  git clone -q --bare "$1" "$1-bare"
  git -C "$1-bare" repack -qadb
  git clone -q --shared "$1-bare" "$work/unshared" && rm -rf "$work/unshared"
  echo untracked >"$1/untracked"
  echo more >>"$1/changing"
}
pack_options=(--partitions 8)
data() {
  sources "$1"
  repository "$1/repo"
  "$python" - "$1" <<'END'
import os, random, sqlite3, sys, zipfile
r, top = random.Random(5), sys.argv[1]
open(top + "/blob", "wb").write(r.randbytes(700001))
for name, journal in (("plain.db", "delete"), ("wal.db", "wal")):
    db = sqlite3.connect(os.path.join(top, name))
    db.execute("pragma journal_mode=" + journal)
    db.execute("create table t(i integer primary key, name text, value real)")
    db.execute("create index n on t(name)")
    db.executemany("insert into t values(?, ?, ?)",
                   ((i, "name%d" % (i * 7919 % 5003), r.random()) for i in range(5000)))
    db.commit()
    db.execute("pragma wal_checkpoint(truncate)")
    db.close()
with zipfile.ZipFile(top + "/resources.zip", "w") as z:
    z.writestr("inner/text", "in the archive\n" * 10)
END
  if have ffmpeg; then
    ffmpeg -nostdin -v error -f lavfi -i testsrc=size=160x120:rate=10:duration=2 -f lavfi -i sine=duration=2 \
      -c:v mpeg4 -c:a aac -threads 1 -fflags +bitexact -flags +bitexact "$1/film.mp4" "$1/film.mkv" "$1/sound.wav" -y </dev/null
  fi
  if have javac jar; then
    javac -d "$work/classes" "$clients/Client.java"
    cp -r "$work/classes" "$1/classes"
    jar --create --file "$1/client.jar" --main-class Client -C "$work/classes" .
  fi
  printf '.TH TEST 1\n.SH NAME\ntest \\- a page\n.SH TEXT\nSome text.\n' >"$1/page.1"
}

if have git; then
  for r in repo repo-bare; do
    try git-log-$r "cd \"\$D/$r\" && git log --stat && git log --oneline --graph --all && git log -p -1 && git log --format='%H %an %ad %s' --follow -- changing"
    try git-show-$r "cd \"\$D/$r\" && git show v3 && git show HEAD~2:changing | md5sum && git cat-file -p HEAD^{tree} && git ls-tree -r HEAD && git cat-file --batch-all-objects --batch-check"
    try git-refs-$r "cd \"\$D/$r\" && git branch -a && git tag -n && git show-ref && git rev-parse HEAD side v3 && git for-each-ref && git describe && git count-objects -v && git reflog | cat"
    try git-blame-$r "cd \"\$D/$r\" && git blame HEAD -- changing && git shortlog -s HEAD && git rev-list --objects --all | sort && git diff side HEAD && git diff --stat HEAD~4 HEAD"
    try git-fsck-$r "cd \"\$D/$r\" && git fsck --full --no-progress 2>&1 && git verify-pack -v \$(find . -name '*.idx') && git config -l | sort | grep -v safe"
    try git-grep-$r "cd \"\$D/$r\" && git grep -n 55 HEAD && git grep -c 1 side -- dir1"
    try git-archive-$r "git -C \"\$D/$r\" archive --prefix=x/ HEAD | tar tv; git --git-dir=\"\$(ls -d \"\$D/$r/.git\" 2>/dev/null || echo \"\$D/$r\")\" archive --format=zip HEAD | md5sum; git -C \"\$D/$r\" bundle create -q \"\$W/b\" --all && git bundle list-heads b | wc -l && rm b"
    try git-clone-$r "git clone -q \"\$D/$r\" copy && git -C copy log --oneline && git -C copy status --short && rm -rf copy/.git; git clone -q --bare --no-local \"\$D/$r\" bare && git -C bare fsck --no-progress && rm -rf bare; git clone -q --depth 2 file://\"\$D/$r\" shallow && git -C shallow log --oneline && rm -rf shallow"
    try git-fetch-$r "git init -q new && cd new && git fetch -q \"\$D/$r\" main side:s && git log --oneline FETCH_HEAD s | cat && git ls-remote \"\$D/$r\" && git remote add o \"\$D/$r\" && git remote update -p 2>&1 | sort && cd .. && rm -rf new"
    try git-alternates-$r "git clone -q --shared \"\$D/$r\" copy && git -C copy log --stat && git -C copy fsck --no-progress && git -C copy commit -q --allow-empty -m x 2>&1 | wc -l; rm -rf copy"
    refused git-refused-$r "cd \"\$D/$r\" && git gc -q 2>&1 | sort -u; git repack -adq; git tag new; git branch new; git update-ref refs/heads/y HEAD; git fetch -q . side:z; git config a.b c; git pack-refs --all; git worktree add -q \"\$W/tree\" HEAD; git prune; false"
  done
  try git-status 'cd "$D/repo" && git status && git status --porcelain=v2 && git diff && git diff --cached && git ls-files -s && git stash list && git diff-index HEAD && git ls-files -o -m'
  try git-inside 'cd "$D/repo/dir1" && git status -s && git log --oneline . && git rev-parse --show-toplevel --show-prefix && git grep -l 5 && git ls-files; cd "$D/repo/.git" && git rev-parse --is-inside-git-dir'
  try git-blame-worktree 'cd "$D/repo" && git blame changing | tail -n 3 | sed "s/Not Committed Yet [^+]*/now /"; git -C "$D/repo" check-ignore -v untracked; git -C "$D/repo" describe --dirty --always; GIT_DIR=$D/repo/.git git --work-tree="$D/repo" status -s; git hash-object "$D/blob" --stdin-paths <<<"$D/plain.db"; git diff --no-index --stat "$D/src" "$D/include" | cat'
  refused git-commit 'cd "$D/repo" && git add -A; git commit -qam x; git checkout -q side; git stash; git reset -q --hard; git rm -q changing; git mv changing x; git clean -fdq; git merge side; git switch -q side'
fi

try gcc 'gcc -I"$D/include" -o hello "$D/src/main.c" "$D/src/greet.c" && ./hello there; [ $? = 3 ] && gcc -O2 -c -MD -MF deps -I "$D/include" "$D/src/greet.c" -o x.o && cat deps; gcc -E -H -I"$D/include" "$D/src/greet.c" 2>&1 | grep nowhere; rm hello *.o'
try gcc-inside 'cd "$D/src" && gcc -I../include -S -o - greet.c && gcc -iquote ../include -include ../include/greet.h -fsyntax-only main.c && gcc -M -I../include main.c | head -n 1; gcc -xc -c -o "$W/s.o" - <"$D/src/greet.c" -I"$D/include" && rm "$W/s.o"; echo done'
fails gcc-errors 'gcc -c "$D/src/main.c" -o x.o; gcc -I"$D/include" -c "$D/none.c"; cd "$D/src" && gcc -I../include -c greet.c 2>&1 | sed "s/ for writing//"; false'
try gcc-library 'gcc -o use '"$work"'/use.c -L"$D/lib" -lanswer -Wl,-t 2>&1 | grep nowhere; readelf -d use | grep NEEDED; gcc -o use2 '"$work"'/use.c "$D/lib/libanswer.so" && nm -u use2 | grep answer; rm use*'
try make-outside 'make -f "$D/Makefile" SRC="$D" 2>&1 && ./hello you; make -f "$D/Makefile" SRC="$D" list rule; cat greet.d; make -f "$D/Makefile" SRC="$D"; rm -f hello *.o'
try make-inside 'cd "$D" && make -s list rule SRC=. && make -n SRC=. && make -C "$D" SRC="$D" -s rule && make -q SRC=. rule; echo $?; make -pn SRC=. | grep "^SRC"'
fails make-refused 'cd "$D" && make hello 2>&1 | grep -v "compilation terminated" | sed "s/-[A-Za-z0-9]*\.o/TEMPORARY/; s/for writing//" | sort'
have cmake && try cmake 'printf "cmake_minimum_required(VERSION 3.10)\nproject(x C)\nadd_executable(hello %s/src/main.c %s/src/greet.c)\ninclude_directories(%s/include)\n" "$D" "$D" "$D" >CMakeLists.txt; cmake -S . -B b >/dev/null && cmake --build b 2>&1 | grep -c "Building\|Built"; b/hello cmake; rm -rf b'
have g++ && try g++ 'g++ -std=c++17 -o read "$D/src/read.cc" && ./read "$D"; rm -f read'

try program 'for p in hello; do "$D/bin/$p" x; echo $?; PATH=$D/bin "$p" y; done; cd "$D/bin" && ./hello z; cp "$D/bin/hello" "$W/h" && "$W/h" copy; strip -o "$W/s" "$D/bin/hello" && "$W/s" stripped; rm "$W"/?'
try program-library 'LD_LIBRARY_PATH=$D/lib "$D/bin/use"'
try program-origin '"$D/bin/use-origin"'
try library-path 'cp "$D/bin/use" . && LD_LIBRARY_PATH=$D/lib ./use; rm use'
try dlopen 'gcc -shared -fPIC -o libanswer.so '"$work"'/answer.c; gcc -o use '"$work"'/use.c -L. -lanswer -Wl,-rpath,"$W"; ./use; ./use "$D/lib/libanswer.so"; rm -f use libanswer.so; "$PYTHON" -c "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).answer())" "$D/lib/libanswer.so"'
try ldd 'ldd "$D/bin/hello" | sed "s/ (0x.*//" | grep -v fanstore; LD_LIBRARY_PATH=$D/lib ldd "$D/bin/use" | grep -c answer'
try binutils 'cd "$D/bin" && readelf -hlS hello && nm hello | sort && objdump -d hello | md5sum && strings -a hello | md5sum && size hello && addr2line -e hello 0 && objcopy -O binary hello "$W/h" && md5sum "$W/h"; ar t "$D/lib/libanswer.a"; nm "$D/lib/libanswer.a" 2>&1 | md5sum; c++filt _Z1fv; file hello ../lib/*'
have gdb && try gdb 'gdb -nx -batch -ex "info line main" -ex "list greet" -ex "info symbol main" -ex "disassemble main" "$D/bin/hello" 2>&1'
have gdb && try gdb-run 'cp "$D/bin/hello" h; gdb -nx -batch -ex "set startup-with-shell off" -ex "break greet" -ex "run" -ex "bt" -ex "cont 2" ./h 2>&1 | grep -v "thread\|^\[\|warning\|^$\|0x"; rm h'
have strace && try strace 'strace -f -o /dev/null "$D/bin/hello" x; strace -qq -e trace=none cat "$D/src/main.c"'

if have sqlite3; then
  q='select count(*), sum(i), max(name) from t; select * from t where name like "name12%" order by value limit 5; pragma integrity_check; explain query plan select * from t where name = "name1";'
  try sqlite "sqlite3 \"\$D/plain.db\" '$q'; sqlite3 -readonly \"\$D/plain.db\" '$q'; sqlite3 \"file:\$D/plain.db?mode=ro\" '$q'; sqlite3 \"file:\$D/plain.db?immutable=1\" '$q'"
  try sqlite-shell 'cd "$D" && sqlite3 -readonly plain.db .schema ".dump t" | md5sum; sqlite3 -csv -header plain.db "select * from t limit 20"; sqlite3 plain.db ".backup $W/copy.db" && sqlite3 "$W/copy.db" "pragma integrity_check"; cmp "$W/copy.db" plain.db && echo same; rm "$W/copy.db"'
  try sqlite-mmap 'sqlite3 -readonly "$D/plain.db" "pragma mmap_size=100000000; select count(distinct name), avg(i) from t"; sqlite3 :memory: "attach \"file:$D/plain.db?mode=ro\" as a; select count(*) from a.t x join a.t y on x.i = y.i + 1"; sqlite3 "file:$D/wal.db?immutable=1" "select count(*) from t"'
  fails sqlite-wal 'sqlite3 -readonly "$D/wal.db" "select count(*) from t"'
  refused sqlite-write 'sqlite3 "$D/plain.db" "insert into t values(9999, 1, 1)"; sqlite3 "$D/plain.db" "create table u(x)"; sqlite3 "$D/new.db" "create table u(x)"; sqlite3 "$D/plain.db" vacuum; sqlite3 -readonly "$D/none.db" "select 1 from x"; false'
fi

if have ffprobe ffmpeg; then
  try ffprobe 'for f in film.mp4 film.mkv sound.wav; do ffprobe -v error -show_format -show_streams "$D/$f"; ffprobe -v error -show_packets -of csv "$D/$f" | md5sum; done; cd "$D" && ffprobe -hide_banner film.mp4 2>&1; ffprobe -v error -show_entries format=duration - <film.mkv'
  try ffmpeg 'for f in film.mp4 film.mkv; do ffmpeg -nostdin -v error -threads 1 -i "$D/$f" -f framemd5 -; ffmpeg -nostdin -v error -ss 1 -i "$D/$f" -frames:v 1 -f image2pipe -c:v ppm - | md5sum; done; ffmpeg -v error -i pipe:0 -f null - <"$D/film.mkv" && echo fine; ffmpeg -nostdin -v error -i "$D/sound.wav" -f s16le - | md5sum; ffmpeg -nostdin -v error -i "$D/film.mp4" -c copy -f null - && echo null'
  try ffmpeg-list 'printf "file %s\n" "$D/film.mkv" "$D/film.mkv" >list; ffmpeg -nostdin -v error -f concat -safe 0 -i list -c copy -f framecrc - | md5sum; ffmpeg -nostdin -v error -stream_loop 1 -i "$D/sound.wav" -f md5 -'
  refused ffmpeg-refused 'ffmpeg -nostdin -v error -i "$D/sound.wav" "$D/out.wav"; ffmpeg -nostdin -y -v error -i "$D/sound.wav" "$D/film.mkv"; ffprobe -v error "$D/none.mp4"'
fi

if have java javac jar; then
  try java 'java -XX:TieredStopAtLevel=1 -Xshare:auto -cp "'"$work"'/classes" Client "$D"'
  try java-jar 'java -XX:TieredStopAtLevel=1 -jar "$D/client.jar" "$D" | md5sum; java -XX:TieredStopAtLevel=1 -cp "$D/client.jar" Client "$D" | wc -l; cd "$D" && java -XX:TieredStopAtLevel=1 -cp classes:client.jar Client . | tail -n 1'
fi
have node && try node "node \"\$C/client.js\" \"\$D\""
try less-man 'less "$D/src/main.c" | cat; less <"$D/src/main.c" | cat; more "$D/src/main.c" </dev/null | cat; man -P cat "$D/page.1" 2>/dev/null | head -n 20; cd "$D" && man -P cat ./page.1 2>/dev/null | wc -l'
try editors 'vim -e -s -N -u NONE -i NONE -n -c "%p" -c q "$D/src/main.c" </dev/null; printf ",p\nq\n" | ed -s "$D/src/main.c"'
have jq && try jq 'echo "{}" >x; jq -c -R . "$D/src/main.c"; jq -n --rawfile a "$D/src/main.c" "\$a | length"; jq -R -s length <"$D/src/greet.c"'
have openssl && try openssl 'openssl dgst -sha256 "$D/blob"; openssl enc -base64 -in "$D/blob" | md5sum; openssl dgst -md5 <"$D/blob"'
have curl && try curl 'curl -s "file://$D/blob" | md5sum; curl -s -r 100-199 "file://$D/blob" | md5sum; curl -s -I "file://$D/blob" | head -n 1'
compare
