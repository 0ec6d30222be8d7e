#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# outputs_ends.sh for longer.
END_SECONDS=5 exec bash "$(dirname "$0")/outputs_ends.sh"
