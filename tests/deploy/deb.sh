#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The Debian package of `make deb`: lintian has nothing to say. In a copy of this system it is
# installed, runs a job of two emulated nodes, is installed again under a running job, and is
# removed without a trace.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/functions.bash"
need_systems
need_command lintian dpkg
package=$(the_deb)

lintian --allow-root --fail-on error,warning "$package" >"$work/lintian" 2>&1 || {
  cat "$work/lintian"
  fail "lintian"
}
echo "ok - lintian"

random_files "$work/source" 40 4 1 100 5000 100000
cat >"$work/inside.sh" <<'END'
set -euo pipefail
package=$1 work=$2 mnt=$3
cd "$work"
rm -f /var/lib/man-db/auto-update # else dpkg rebuilds the index of all manual pages
[ -z "$(type -P fs-launch)" ]
dpkg -i "$package"
[ "$(command -v fs-launch)" = /usr/bin/fs-launch ]
[ -f /usr/share/doc/fanstore/docs/install.md ]
fs-prepare pack --mount "$mnt" --partitions 3 source ds
# The job goes on while the package is replaced: a program that begins then has the new library.
mkfifo go
fs-launch --dataset ds --local-dir "$work/local" --emulate 2 --report report.json -- sh -c "
  grep -q /usr/lib/fanstore/libfanstore.so /proc/self/maps && diff -r source $mnt &&
  touch running && cat go && diff -r source $mnt && echo same" >same &
job=$!
for _ in {1..200}; do [ ! -e running ] || break; sleep 0.1; done
[ -e running ]
dpkg -i "$package"
echo >go
wait $job
dpkg -P fanstore
[ -z "$(type -P fs-launch)" ]
[ ! -e /usr/lib/fanstore ]
END
in_copy / bash "$work/inside.sh" "$package" "$work" "$mnt" >"$work/log" 2>&1 || {
  cat "$work/log"
  fail "in the copy"
}
grep -qx same "$work/same" || fail "the job: $(cat "$work/same" "$work/log")"
equal "read from the other node" True "$(json "$work/report.json" 'r["total"]["bytes_remote"] > 0')"
equal "fallbacks" 0 "$(json "$work/report.json" 'r["total"]["fallbacks"]')"
echo "ok - installed, and replaced under a job of two emulated nodes"

left=$(grep -v '/man-db/auto-update$' "$work/changed" || :)
[ -z "$left" ] || fail "left: $left"
echo "ok - removed without a trace"
