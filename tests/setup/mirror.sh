#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Prints the address of the Debian mirror that this machine uses, or FS_SYSTEMS_MIRROR.
set -euo pipefail
found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
  grep -oE '(^URIs: |^deb .*)https?://[^ ]*/debian/?( |$)' | grep -oE 'https?://[^ ]*' |
  head -n 1 || true)
echo "${FS_SYSTEMS_MIRROR:-${found:-http://deb.debian.org/debian}}"
