# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154,SC2034
# For run.sh and afl.sh, which have set target: corpus, the directory of the inputs in build/fuzz-corpus, begins with those of
# tests/fuzz/corpus (made by minimize.sh) and pieces of a freshly packed dataset. options are libFuzzer's.
corpus=$root/build/fuzz-corpus/$target
mkdir -p "$corpus"
kept=$root/tests/fuzz/corpus/${target#fuzz_}.tar.gz
[ ! -e "$kept" ] || tar -C "$corpus" --skip-old-files -xzf "$kept"
options=() leaks=1
case $target in
  fuzz_daemon*) options=(-max_len=2048 -len_control=0) leaks=0 ;; # a daemon never ends
  fuzz_nodes_*) options=(-max_len=256 -len_control=0 -close_fd_mask=3) leaks=0 ;; # a rank's memory ends with its process
  fuzz_path) options=(-max_len=64) ;;
  fuzz_prepare_archive) options=(-max_len=20480 -close_fd_mask=3) ;;
  fuzz_control | fuzz_launch_options | fuzz_prepare_*) options=(-max_len=4096 -close_fd_mask=3) ;; # they tell what is wrong
  fuzz_handover | fuzz_settings) options=(-max_len=4096) ;;
  *) options=(-max_len=65536) ;;
esac

make_tree "$work/source"
rm -rf "$work/source/train" "$work/source/sizes"
pack "$work/source" "$work/ds" --partitions 2 --mount /mnt
case $target in
  *index*) cp "$work/ds/index" "$corpus/seed-index" ;;
  *manifest*) cp "$work/ds/manifest" "$corpus/seed-manifest" ;;
  *codec*) head -c 4096 "$work/ds/part-00000" | tail -c 64 >"$corpus/seed-block" ;;
  *part*) head -c 4096 "$work/ds/part-00000" >"$corpus/seed-part" ;;
  *elf*)
    printf 'int main(void) { return 0; }\n' >"$work/a.c"
    clang -Os -s -nostartfiles -Wl,-e,main -o "$corpus/seed-program" "$work/a.c"
    clang -Os -s -shared -nostdlib -o "$corpus/seed-library" "$work/a.c"
    clang -Os -s -static -nostdlib -Wl,-e,main -o "$corpus/seed-static" "$work/a.c"
    ;;
  *nodes*) # eight bytes change one message: which, how, where, a value
    "$python" -c 'import struct, sys
for message in range(60 if "lead" in sys.argv[2] else 26):
  for how in (message % 10, (message + 5) % 10):
    with open("%s/seed-%d-%d" % (sys.argv[1], message, how), "wb") as f:
      f.write(struct.pack("<BBHI", message, how, 4 + 4 * (message % 7), how) + b"abcd" * 4)' "$corpus" "$target"
    ;;
  *names*) # a call and a record that are good
    "$python" -c 'import struct, sys
open(sys.argv[1] + "/seed-call", "wb").write(struct.pack("<IIQQQQQqIIHHI8s", 2, 0, 1 << 32, 0, 1 << 62, 0, 0, 0, 0, 0o100644, 1, 0, 0, b"f"))
open(sys.argv[1] + "/seed-record", "wb").write(struct.pack("<QQQQQqqIIIIIHH8s", 1 << 62, 1 << 32, 1, 1, 5, 0, 0, 0, 0, 0o120777, 0, 1, 1, 2, b"fto"))' "$corpus"
    ;;
  *prepare_archive*)
    (cd "$work" && "$python" "$root/tests/prepare/archives.py")
    find "$work" -maxdepth 1 -size -20k \( -name '*.tar*' -o -name '*.zip' -o -name '*.tgz' \) -exec cp {} "$corpus" \;
    ;;
  *prepare_options*) printf '%s\n' --codec lz4hc:9 --mount /a/b --exclude '*.tmp' source dataset >"$corpus/seed-words" ;;
  *launch_options*) printf '%s\n' --dataset /a --emulate 2 --verify always -- true >"$corpus/seed-words" ;;
  *settings*) printf '%s\n' /a:/b\\:c /m:/n 1 always 3 4 5 6 /tmp >"$corpus/seed-environment" ;;
  *live*)
    printf 'fanstore-live 1\njob j pid=1 user=u started=9000 state=running nodes=2 command=a%%20b\nprogress done=1 total=2\n' >"$work/live"
    printf 'node %d host=h ms=%d000 opens=%d bytes_cache=9 processes=1\nlatency 0 read remote n=1 counts=1:2,9:9\n' 0 9 5 1 9 7 >>"$work/live"
    printf 'warning a%%20b\n' >>"$work/live"
    cp "$work/live" "$corpus/seed-live"
    { cat "$work/live" && printf '\0' && sed 's/ms=9/ms=10/; s/opens=5/opens=50/' "$work/live"; } >"$corpus/seed-two"
    ;;
  *control*)
    printf '@fs hello rank=0 host=a%%20b pid=1 job=j free=4096\n' >"$corpus/seed-hello"
    printf '\377--job\nj\n--local-dir\n/a\n--dataset\n/b\n--cache\n16M' >"$corpus/seed-words"
    ;;
esac
[ -n "$(ls -A "$corpus")" ] || printf 0 >"$corpus/seed-0" # AFL++ does not begin with none
