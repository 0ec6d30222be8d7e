# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the lints share: strict mode, the source tree as the current directory, `sources GLOB...` (the files of the tree
# that match, tracked or new, never build output), `recent GLOB...` (which may be fewer), `complain LINE`, and `verdict`, which ends a lint.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck disable=SC2034 # for the lints
build=${FS_BUILD:-$PWD/build}
# What libfanstore.so exports besides libc's names: its own, and those of libaio and liburing that it wraps.
# shellcheck disable=SC2034
not_libc='fanstore_.*|io_submit|io_uring_(setup|queue_init(_params|_mem)?)'
export LC_ALL=C.UTF-8
complaints=0

sources() { # GLOB...
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while IFS= read -r f; do
      [ ! -f "$f" ] || printf '%s\n' "$f"
    done
  else
    local g
    for g in "$@"; do find . \( -path ./build -o -path ./.git \) -prune -o -type f -path "./$g" -print | sed 's|^\./||'; done | sort -u
  fi
}
# recent GLOB...: sources; with LINT_COMMITS=N only those that the last N commits changed, and those that are changed now
recent() {
  local changed
  if [ -n "${LINT_COMMITS:-}" ] &&
    changed=$({ git log -n "$LINT_COMMITS" --name-only --format= && git diff --name-only HEAD && git ls-files --others --exclude-standard; } 2>/dev/null); then
    sources "$@" | grep -xF "$changed" || :
  else
    sources "$@"
  fi
}
complain() {
  printf '%s\n' "$*"
  complaints=$((complaints + 1))
}
verdict() {
  [ $complaints -eq 0 ] || {
    echo "$complaints complaints"
    exit 1
  }
  exit 0
}
need() { # COMMAND
  command -v "$1" >/dev/null || {
    echo "no $1 here"
    exit 77
  }
}
