#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1500
# bitflips.sh with every one of the flips.
FLIP_SECONDS=0 exec bash "$(dirname "$0")/../bitflips.sh"
