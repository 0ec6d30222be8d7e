#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command for another processor: enter.sh PROCESSOR ROOT COMMAND...
# ROOT is of tests/setup/processor_root.sh. The command and all that it starts run in ROOT, by qemu,
# in namespaces of their own: the kernel hands each program of PROCESSOR to qemu-user
# (binfmt_misc), and this machine's own settings stay as they are. The source tree and TMPDIR have
# the paths that they have outside. `cc` and `gcc` in ROOT are this machine's cross compiler. Needs
# no root. QEMU_PAGESIZE=65536 gives the programs pages of 64 KiB.
set -euo pipefail
if [ "$1" != --inside ]; then
  exec unshare -Urm "$BASH" "$0" --inside "$@"
fi
processor=$2 system=$3
shift 3
tree=$(cd "$(dirname "$0")/../.." && pwd)

# The kernel opens qemu now (F), so that ROOT needs no copy of it. It hands qemu an open program (O)
# and the program's own name (P).
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
case $processor in
  aarch64) machine='\xb7\x00' ;;
  ppc64le) machine='\x15\x00' ;;
esac
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00'$machine
mask='\xff\xff\xff\xff\xff\xff\xff\xfc\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
echo ":$processor:M::$magic:$mask:$(command -v "qemu-$processor-static"):OPF" >/proc/sys/fs/binfmt_misc/register

mount --bind "$system" "$system" # a mount, for pivot_root
mkdir -p "$system"/{host,usr/lib/x86_64-linux-gnu}
for dir in proc dev sys; do mount --rbind "/$dir" "$system/$dir"; done
mount -t tmpfs tmpfs "$system/tmp"
for dir in "$tree" "${TMPDIR:=/tmp}"; do
  mkdir -p "$system$dir"
  mount --rbind "$dir" "$system$dir"
done
# The cross compiler is a program of this machine, with its loader and libraries.
mount --rbind /usr/lib/x86_64-linux-gnu "$system/usr/lib/x86_64-linux-gnu"
ln -sf /host/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$system/usr/lib64/"
case $processor in
  aarch64) compiler=aarch64-linux-gnu-gcc ;;
  ppc64le) compiler=powerpc64le-linux-gnu-gcc ;;
esac
for name in cc gcc; do
  printf '#!/bin/sh\nexec /host/usr/bin/%s --sysroot=/ "$@"\n' "$compiler" >"$system/usr/local/bin/$name"
  chmod +x "$system/usr/local/bin/$name"
done

cd "$system"
pivot_root . host
# The namespaces have one user, so nothing can be given to another one: the command is no root.
exec /host/usr/bin/unshare -U --map-user=1000 --map-group=1000 /usr/bin/env -C "$tree" \
  PATH=/usr/local/bin:/usr/bin:/usr/sbin HOME=/tmp "$@"
