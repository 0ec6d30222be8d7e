#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 900
# bitflips_large.sh for two minutes of each part, with another seed each time.
FLIP_SECONDS=120 exec bash "$(dirname "$0")/../bitflips_large.sh"
