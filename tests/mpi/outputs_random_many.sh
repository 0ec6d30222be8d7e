#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 25
# Outputs written and read in a random order (outputs_random.sh), in many more steps.
FS_HALF=all STEPS=${STEPS:-1500} exec bash "$(dirname "$0")/outputs_random.sh"
