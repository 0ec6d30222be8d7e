#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 30
# Writers killed at random moments (outputs_kills.sh), in a hundred rounds with each number of nodes.
FS_HALF=all ROUNDS=${ROUNDS:-100} exec bash "$(dirname "$0")/outputs_kills.sh"
