#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 900
# The modules that `make install` makes, by environment-modules and by Lmod: `module load` finds
# programs, manual pages, headers and library; `module unload` restores the environment.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/functions.bash"
need_systems

prefix=$work/opt
make -C "$root" --no-print-directory install PREFIX="$prefix" >"$work/install" 2>&1 || {
  cat "$work/install"
  fail "make install"
}
cat >"$work/inside.sh" <<'END'
set -eo pipefail
prefix=$1 init=$2 MANPATH=$3
[ -z "$MANPATH" ] && unset MANPATH || export MANPATH
. "$init"
module use "$prefix/share/fanstore/modulefiles"
# But for what the module systems keep for themselves.
environment() { env | grep -vE '^(LOADEDMODULES=$|_ModuleTable|__LMOD)' | sort; }
before=$(environment)
[ -z "$(type -P fs-launch)" ]
module load fanstore
[ "$(command -v fs-launch)" = "$prefix/bin/fs-launch" ]
fs-launch --version
[ "$(man -w fs-launch)" = "$prefix/share/man/man1/fs-launch.1" ]
[ "${3:+set}" = "${MANPATH:+set}" ]
man -w man >&2
[ "$PKG_CONFIG_PATH" = "$prefix/lib/pkgconfig" ]
module list 2>&1 | grep -q fanstore/
module whatis fanstore 2>&1 | grep -q node-local
module unload fanstore
diff <(echo "$before") <(environment) >&2
[ -z "$(type -P fs-launch)" ]
END
one() { # NAME ROOT INIT MANPATH
  in_copy "$2" /usr/bin/env -i HOME=/ PATH=/usr/bin:/bin bash "$work/inside.sh" "$prefix" "$3" "$4" >"$work/out" 2>"$work/err" || {
    cat "$work/out" "$work/err"
    fail "$1, MANPATH='$4'"
  }
  equal "$1: version" "$("$bin/fs-launch" --version)" "$(cat "$work/out")"
}
tcl=$(system_root bookworm environment-modules man-db)
lmod=$(system_root trixie lmod man-db)
for path in "" /usr/share/man; do
  one environment-modules "$tcl" /usr/share/modules/init/bash "$path"
  one Lmod "$lmod" /usr/share/lmod/lmod/init/bash "$path"
done
echo "ok - environment-modules and Lmod"
