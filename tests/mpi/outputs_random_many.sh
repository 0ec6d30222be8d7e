#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# Outputs written and read in a random order (outputs_random.sh), in thousands of steps.
FS_HALF=all STEPS=${STEPS:-3000} exec bash "$(dirname "$0")/outputs_random.sh"
