#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# Writers killed at random moments (outputs_kills.sh), in hundreds of rounds.
FS_HALF=all ROUNDS=${ROUNDS:-200} exec bash "$(dirname "$0")/outputs_kills.sh"
