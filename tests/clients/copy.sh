#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs that copy trees out of the dataset, archive them, compare with them, and those that must be refused to change
# them: cp, install, ln, rsync, tar, cpio, zip, git's and busybox's relatives, rm, mv, mkdir, chmod, touch.
. "$(dirname "$0")/harness.bash"

data() {
  make_tree "$1"
  # A file with holes, and what archives do with odd names and links.
  truncate -s 3M "$1/sparse"
  printf data | dd of="$1/sparse" bs=1 seek=1048576 conv=notrunc status=none
  touch -d '2004-05-06 07:08:09.123456789' "$1/sparse"
}

try cp-r 'cp -r "$D" copy'
try cp-a 'cp -a "$D" copy'
try cp-rL 'rm -f x; cp -rL "$D/links/dir" "$D/sizes" .'
try cp-options 'cp -p "$D/modes/640" a; cp -P "$D/links/chain" b; cp -L "$D/links/chain" c; cp --preserve=timestamps "$D/sizes/text-1.bin" d; cp -d "$D/links/dangling" e; cp --no-preserve=mode "$D/modes/755" f; cp --parents "$D/modes/444" .'
try cp-reflink 'cp --reflink=auto "$D/sizes/random-1000003.bin" a; cp --reflink=never "$D/sizes/random-262145.bin" b'
fails cp-reflink-always 'cp --reflink=always "$D/sizes/random-1000003.bin" a 2>&1 | sed "s/: [^:]*$//"'
try cp-sparse 'for s in auto always never; do cp --sparse=$s "$D/sparse" $s; stat -c "%n %s" $s; done; stat -c %b always'
try cp-many 'cp "$D"/sizes/* .; cp -t . "$D/modes/600"; cp -u "$D/modes/600" .; cp -n "$D/modes/755" 600; cp -b "$D/modes/755" 600; cp -v "$D/modes/444" x'
try cp-link 'cp -rs "$D/odd" copy; cp -s "$D/sizes/text-1.bin" s; ln -s "$D/links/target" l; cat l'
refused cp-hard-link 'cp -l "$D/sizes/text-1.bin" hard; ln "$D/sizes/text-1.bin" hard2'
fails cp-none 'cp "$D/none" .; cp "$D/sizes" .; cp -r "$D/links/loop-a" "$D/modes" . && cp "$D/links/loop-a" x'
try cp-stdin 'cp /dev/stdin out <"$D/sizes/random-65536.bin"; cp /dev/fd/5 out5 5<"$D/sizes/random-16385.bin"; cat out5 | cksum'
try cp-attributes 'cp --attributes-only --preserve=all "$D/modes/640" a; install -D -m 700 "$D/modes/444" x/y/z; install -p "$D/sizes/text-16.bin" i; install -C "$D/sizes/text-16.bin" j; install -t . "$D"/modes/4*'
try ln-into 'ln -s "$D" there; ls there/ there/modes; cat there/links/chain there/links/../modes/444; cd there/odd && pwd -P; find -L "$W/there/links/dir" -name "*99.jpg" | sort; readlink -f "$W/there/links/up"'
try mv-out 'cp -a "$D/odd" o; mv o p; mv -t . p/...; ls -a . p'
try busybox-applets 'busybox true; cp "$D/sizes/text-1.bin" x'

if have rsync; then
  try rsync-a 'rsync -a "$D/" copy'
  try rsync-aH 'rsync -aHAX --numeric-ids "$D/" copy; rsync -aHi "$D/" copy; rsync -ain --delete "$D/" copy'
  try rsync-list 'rsync -r --list-only "$D/"; rsync -a --list-only "$D/modes" "$D/links/"'
  try rsync-checksum 'rsync -a "$D/sizes" "$D/modes" .; echo changed >>sizes/text-16.bin; touch -r "$D/sizes/text-16.bin" sizes/text-16.bin; rsync -ac -i "$D/sizes" "$D/modes" .'
  try rsync-dry 'rsync -an -v "$D/" copy | grep -v "^sent\|^total"; mkdir copy; rsync -ani --stats "$D/train" copy | grep -v "bytes/sec\|time:\|sent\|speedup"'
  try rsync-whole 'rsync -aW --inplace "$D/sizes" .; rsync -a --no-whole-file -B 700 "$D/sizes" .; rsync -rlptz --sparse "$D/train" .; rsync -aS "$D/sparse" .'
  try rsync-filter 'rsync -a --include="*/" --include="*0.jpg" --exclude="*" "$D/train" .; rsync -a --files-from=<(cd "$D" && find odd -type f | grep -v new | grep -v line) "$D" o; rsync -a --max-size=1k "$D/odd dirs" .'
  refused rsync-link-dest 'rsync -a --link-dest="$D" "$D/odd dirs" . 2>&1 | sort; false'
  try rsync-L 'rsync -rL "$D/links/dir" "$D/links/up" .; rsync -a --copy-unsafe-links "$D/links" . 2>&1 | sort; rsync -rl --safe-links "$D/links" s'
  refused rsync-into 'mkdir new; echo x >new/file; rsync -r new/ "$D/" 2>&1 | sed "s/\.file\.[A-Za-z0-9]*/TEMPORARY/; s/\[.*//; s/^rsync error.*//"; [ "${PIPESTATUS[0]}" = 0 ]'
  try rsync-dry-into 'mkdir new; echo x >new/file; cp -a "$D/modes" new/; rsync -ain new/ "$D/"; rsync -acin --delete new/modes/ "$D/modes/"'
  refused rsync-delete 'mkdir new; rsync -r --delete new/ "$D/modes/" 2>&1 | grep -v "^rsync error" | sort; false'
fi

try tar-c 'tar --sort=name -C "$D" -cf all.tar . && tar tvf all.tar && md5sum all.tar'
try tar-cx 'tar -C "$D" -cf - . | tar -x'
try tar-x-preserve 'tar -C "$D" --numeric-owner -cpf - sizes odd links | tar -xp --same-owner'
try tar-z 'tar --sort=name -czf - -C "$D" sizes | tar tz; tar --sort=name -cJf x.tar.xz "$D/odd" 2>&1; tar tf x.tar.xz'
try tar-compare 'tar --sort=name -C "$D" -cf all.tar . && tar -C "$D" -df all.tar && echo the same; tar --sort=name -C "$D" -cf - modes | tar -C "$D" -dv'
try tar-sparse 'tar -C "$D" -S -cf s.tar sparse && tar xf s.tar && cmp sparse "$D/sparse"; stat -c %s s.tar'
try tar-formats 'for f in gnu posix ustar v7; do tar --sort=name --format=$f --pax-option=delete=atime,delete=ctime,exthdr.name=%d/%f -C "$D" -cf - modes links sizes/text-16.bin 2>&1 | md5sum; done'
try tar-options 'tar -C "$D" --exclude="*.jpg" --exclude=odd* -cf - . | tar t | sort; tar -h -C "$D" -cf - links/dir links/up | tar t | sort; tar -C "$D" --null -T <(cd "$D" && find modes -type f -print0 | sort -z) -cf - | tar t'
try tar-update 'tar --sort=name -C "$D" -cf u.tar modes; tar -C "$D" -rf u.tar sizes/text-1.bin; tar --sort=name -C "$D" -uf u.tar modes sizes/text-1.bin sizes/text-15.bin; tar tf u.tar'
try tar-incremental 'tar -C "$D" -g snap -cf 0.tar train; tar -C "$D" -g snap -cf 1.tar train; tar tf 0.tar | sort; tar tf 1.tar | sort; rm snap ?.tar'
fails tar-none 'tar -C "$D" -cf none.tar none; tar -C "$D/none" -cf x.tar .; tar tf "$D/modes/444"'
refused tar-x-into 'tar --sort=name -cf t.tar -C "$D" modes links; tar -C "$D" -xf t.tar 2>&1 | sort; tar -C "$D" -xkf t.tar 2>&1 | sort | tail -n 1; rm t.tar; false'
if have cpio; then
  try cpio 'cd "$D" && find . -depth | sort | cpio -o --quiet 2>/dev/null >"$W/all.cpio"; cd "$W" && cpio -itv --quiet <all.cpio | sed "s/^.\{10\} *[0-9]*//" && rm all.cpio; cpio -idm --quiet < <(cd "$D" && find sizes modes | cpio -oH newc --quiet)'
  try cpio-pass 'cd "$D" && find train modes -depth -print0 | cpio -0pdm --quiet "$W"'
fi
if have zip unzip; then
  try zip 'cd "$D" && zip -qry "$W/a.zip" sizes modes links; cd "$W" && unzip -Zs a.zip | sed 1,2d | sort && unzip -q a.zip -d out && rm a.zip'
  try zip-stdin 'zip -q - - <"$D/sizes/text-65536.bin" >a.zip; unzip -p a.zip | cksum; rm a.zip; cd "$D/modes" && ls | zip -q "$W/b.zip" -@ && unzip -l "$W/b.zip" && rm "$W/b.zip"'
  refused zip-into 'cd "$D" && zip -q new.zip modes/444'
fi

# What a read-only file system refuses; messages as there.
refused touch 'touch "$D/new" "$D/sizes/text-1.bin" "$D/links/dangling" "$D/sizes"; touch -c "$D/none"; touch -h "$D/links/chain"; touch -d 2001-01-01 "$D/modes"'
refused rm 'rm "$D/sizes/text-1.bin"; rm -f "$D/modes/444" "$D/none"; rm -rf "$D/empty-dir"; rm -r "$D/modes" 2>&1 | sort; rm "$D/sizes"; rm "$D/none"; rm -d "$D/empty-dir/nested-empty"; unlink "$D/links/chain"'
refused rmdir 'rmdir "$D/empty-dir/nested-empty"; rmdir "$D/modes"; rmdir "$D/sizes/text-1.bin"; rmdir -p "$D/empty-dir/nested-empty"; rmdir "$D/none"'
refused mkdir 'mkdir "$D/new"; mkdir "$D/modes"; mkdir -p "$D/a/b/c"; mkdir "$D/sizes/text-1.bin/x"; mkdir "$D/none/x"; mkdir -p "$D/modes" && echo there already; mkdir "$D/links/dangling"; false'
refused mv 'mv "$D/modes/444" "$D/modes/445"; mv "$D/modes/444" "$W/x"; echo y >y; mv y "$D/y"; mv y "$D/modes/444"; mv -f y "$D/sizes"; mv "$D/sizes" "$W/z" 2>&1 | sort; mv "$D/none" x; mv -n y "$D/modes/600"; ls; cat y; false'
refused cp-into 'echo y >y; cp y "$D/new"; cp y "$D/sizes"; cp y "$D/sizes/text-1.bin"; cp -f y "$D/sizes/text-1.bin"; cp -r "$D/modes" "$D/modes2"; cp --remove-destination y "$D/modes/444"; cp y "$D/none/"; cp -a "$D/modes/444" "$D/odd/"; install y "$D/inst"; install -d "$D/newdir"'
refused ln 'ln -s x "$D/new"; ln -s x "$D/modes/444"; ln -sf x "$D/modes/444"; ln "$D/modes/444" "$D/new"; ln "$D/modes/444" "$D/modes/600"; ln -sfn x "$D/links/dir"; echo y >y; ln y "$D/new"; ln -s y "$D/none/x"; link y "$D/l"'
refused chmod 'chmod 777 "$D/modes/444"; chmod -R u+w "$D/modes" 2>&1 | sort; chmod 644 "$D/none" "$D/links/dangling" "$D/links/loop-a"; chmod 444 "$D/modes/444" && echo the same mode; chmod +x "$D"; chmod --reference="$D/modes/755" "$D/modes/444"; false'
refused chown 'chown 0 "$D/modes/444"; chown -h 0:0 "$D/links/chain"; chgrp -R 0 "$D/links" 2>&1 | sort; chown --from=5 6 "$D/modes/600"; false'
refused truncate 'truncate -s 0 "$D/sizes/text-16.bin"; truncate -s +5 "$D/new"; truncate -c -s 0 "$D/none"; truncate -s 0 "$D/sizes"; fallocate -l 10 "$D/sizes/text-1.bin"; fallocate -l 10 "$D/new"; : >"$D/modes/755"'
refused mknod 'mkfifo "$D/new"; mkfifo "$D/modes/444"; mknod "$D/p" p; mktemp -p "$D" 2>&1 | sed "s/tmp\.[A-Za-z0-9]*/TEMPORARY/"; mktemp -d "$D/d.XXXX" 2>&1 | sed "s/d\.[A-Za-z0-9]*/TEMPORARY/"; mktemp -u "$D/modes/XXXXXX" | wc -c; false'
refused redirections 'echo x >"$D/new"; echo x >>"$D/sizes/text-1.bin"; echo x >|"$D/sizes/text-1.bin"; echo x >"$D"; echo x >"$D/none/x"; exec 6<>"$D/sizes/text-1.bin"; echo $?; set -C; echo x >"$D/sizes/text-1.bin"; echo x >"$D/links/dangling"; echo x >"$D/links/loop-a"'
refused attributes 'setfattr -n user.x -v y "$D/modes/600"; setfattr -x user.x "$D/modes/600"; setfattr -h -n user.x -v y "$D/links/chain"; setfattr -n user.x -v y "$D/none"'
refused shred 'shred -n 1 "$D/modes/600"; shred -u "$D/modes/755"; sync "$D/modes/444" && echo synced; sync -f "$D" && echo synced; false'
refused ed 'printf "1d\nw\nq\n" | ed -s "$D/sizes/text-511.bin"; printf "1p\nq\n" | ed -s "$D/sizes/text-511.bin"; patch -p0 -d "$D" <<<"--- modes/755
+++ modes/755
@@ -1,2 +1,2 @@
 #!/bin/sh
-echo 755
+echo 756" 2>&1 | sed "s/755\.o[A-Za-z0-9]*/TEMPORARY/"'
compare
