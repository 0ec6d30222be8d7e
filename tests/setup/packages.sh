#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs what a purpose needs and the machine lacks: packages.sh {build|check|demo|bench|clients|ci|afl|systems|processors|deploy|containers}...
# Called by `make check`, `make demo`, `make bench` and .ci/run. Where there is apt-get, Debian's packages are
# installed; elsewhere everything is looked for by what it provides, and what is missing is named. Says nothing when
# all is there. FS_NO_INSTALL=1: only say what is missing.
set -euo pipefail

# purpose, Debian package, and what it is recognised by where there is no dpkg: cmd:NAME, hdr:HEADER, lib:FILE or py:MODULE
table='
build gcc             cmd:gcc
build libc6-dev       hdr:stdio.h
build libopenmpi-dev  cmd:mpicc
build openmpi-bin     cmd:mpirun
build liblz4-dev      hdr:lz4hc.h
build libzstd-dev     hdr:zstd.h
build libxxhash-dev   hdr:xxhash.h
build libarchive-dev  hdr:archive.h
build libzydis-dev    hdr:Zydis/Zydis.h
check libcmocka-dev   hdr:cmocka.h
check python3         cmd:python3
check libaio-dev      hdr:libaio.h
check liburing-dev    hdr:liburing.h
check python3-pil     py:PIL
check python3-numpy   py:numpy
check iproute2        cmd:ip
check procps          cmd:ps
check strace          cmd:strace
check file            cmd:file
check python3-mpi4py  py:mpi4py
check python3-filelock py:filelock
check git             cmd:git
check attr            cmd:getfattr
check busybox-static  cmd:busybox
check golang-go       cmd:go
check musl-tools      cmd:musl-gcc
check g++             cmd:g++
check tmux            cmd:tmux
check libncursesw6    lib:libncursesw.so.6
demo  python3         cmd:python3
demo  python3-pil     py:PIL
demo  python3-numpy   py:numpy
demo  python3-torch   py:torch
demo  python3-torchvision py:torchvision
demo  gnuplot-nox     cmd:gnuplot
bench python3         cmd:python3
bench valgrind        cmd:valgrind
bench strace          cmd:strace
bench gnuplot-nox     cmd:gnuplot
bench squashfs-tools  cmd:mksquashfs
bench squashfuse      cmd:squashfuse_ll
bench python3-pil     py:PIL
bench python3-numpy   py:numpy
bench python3-torch   py:torch
bench python3-torchvision py:torchvision
clients python3-torch      py:torch
clients python3-torchvision py:torchvision
clients python3-h5py       py:h5py
clients python3-lmdb       py:lmdb
clients python3-opencv     py:cv2
clients python3-pandas     py:pandas
clients python3-zarr       py:zarr
clients ffmpeg             cmd:ffprobe
clients sqlite3            cmd:sqlite3
clients default-jdk-headless cmd:javac
clients ripgrep            cmd:rg
clients rsync              cmd:rsync
clients gawk               cmd:gawk
clients git                cmd:git
clients perl               cmd:perl
clients cpio               cmd:cpio
clients zip                cmd:zip
clients unzip              cmd:unzip
clients lua5.4             cmd:lua5.4
clients xmlstarlet         cmd:xmlstarlet
clients ed                 cmd:ed
clients bc                 cmd:bc
clients tree               cmd:tree
clients lighttpd           cmd:lighttpd
clients curl               cmd:curl
clients libarchive-tools   cmd:bsdtar
clients zsh                cmd:zsh
clients fakeroot           cmd:fakeroot
clients libjemalloc2       cmd:jemalloc
clients libtcmalloc-minimal4 lib:libtcmalloc_minimal.so.4
ci    python3-torch   py:torch
ci    python3-torchvision py:torchvision
ci    clang           cmd:clang
ci    clang-tidy      cmd:clang-tidy
ci    clang-format    cmd:clang-format
ci    libclang-rt     cmd:clang
ci    cppcheck        cmd:cppcheck
ci    shellcheck      cmd:shellcheck
ci    valgrind        cmd:valgrind
ci    spin            cmd:spin
ci    man-db          cmd:man
ci    slurmctld       cmd:slurmctld
ci    slurmd          cmd:slurmd
ci    slurm-client    cmd:sbatch
ci    munge           cmd:munged
ci    pdsh            cmd:pdsh
ci    python3-ipykernel py:ipykernel
ci    prometheus      cmd:prometheus
ci    prometheus-node-exporter cmd:prometheus-node-exporter
ci    curl            cmd:curl
afl   afl++           cmd:afl-fuzz
systems debootstrap   cmd:debootstrap
systems binutils      cmd:objdump
systems git           cmd:git
processors qemu-user-static cmd:qemu-aarch64-static
processors gcc-aarch64-linux-gnu cmd:aarch64-linux-gnu-gcc
processors gcc-powerpc64le-linux-gnu cmd:powerpc64le-linux-gnu-gcc
processors debian-archive-keyring cmd:dpkg-deb
deploy debhelper      cmd:dh
deploy lintian        cmd:lintian
deploy ansible-core   cmd:ansible-playbook
containers docker.io      cmd:dockerd
containers podman         cmd:podman
containers runc           cmd:runc
containers charliecloud   cmd:ch-run
containers uidmap         cmd:newuidmap
containers tini           cmd:docker-init'

# All packages that are installed, each between spaces.
installed() {
  dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | tr '\n' ' '
}

# clang's sanitizer and fuzzer run-times are packaged with a version in the name since clang 14.
real_name() { # PACKAGE
  local version
  if [ "$1" = libclang-rt ]; then
    version=$({ dpkg-query -W -f '${Depends}\n' clang || apt-cache depends clang; } 2>/dev/null |
      sed -n 's/.*\<clang-\([0-9]*\)\>.*/\1/p' | head -n 1)
    echo "libclang-rt-${version:-14}-dev"
  else
    echo "$1"
  fi
}

provided() { # PROBE
  case $1 in
    cmd:*) command -v "${1#cmd:}" >/dev/null ;;
    hdr:*) printf '#include <%s>\n' stddef.h stdarg.h stdint.h setjmp.h "${1#hdr:}" |
      "${CC:-cc}" -E - >/dev/null 2>&1 ;;
    lib:*) ldconfig -p 2>/dev/null | grep -q "${1#lib:} " ;;
    py:*) python3 -c "import ${1#py:}" 2>/dev/null ;;
  esac
}

missing() { # PURPOSE...
  local purpose package probe there=''
  ! command -v apt-get >/dev/null || there=" $(installed)"
  while read -r purpose package probe; do
    case " $* " in *" ${purpose:-none} "*) ;; *) continue ;; esac
    if [ -n "$there" ]; then
      package=$(real_name "$package")
      [[ $there = *" $package "* ]] || echo "$package"
    else
      provided "$probe" || echo "$package (${probe#*:})"
    fi
  done <<<"$table" | sort -u
}

[ $# -gt 0 ] || { echo "usage: $0 build|check|demo|bench|clients|ci|afl|systems|processors|deploy|containers ..." >&2; exit 2; }
for purpose in "$@"; do
  case $purpose in build | check | demo | bench | clients | ci | afl | systems | processors | deploy | containers) ;; *) echo "$0: no list '$purpose'" >&2; exit 2 ;; esac
done

need=$(missing "$@")
[ -n "$need" ] || exit 0

if [ -n "${FS_NO_INSTALL:-}" ] || ! command -v apt-get >/dev/null; then
  echo "Missing on this system; please install (Debian's package names):" >&2
  echo "  ${need//$'\n'/$'\n'  }" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Packages are missing, and there is neither root nor sudo to install them. As root:" >&2
    echo "  apt-get install --no-install-recommends ${need//$'\n'/ }" >&2
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 "$@" </dev/null >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "apt-get $1 failed. Needed: ${need//$'\n'/ }" >&2
    exit 1
  }
}
echo "Installing: ${need//$'\n'/ }"
apt update
need=$(missing "$@") # again: a versioned name is known only now
mapfile -t packages <<<"$need"
apt install --no-install-recommends "${packages[@]}"
