#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# slow
# Each of four daemons in turn dies (outputs_survive.sh).
VICTIMS='0 1 2 3' exec bash "$(dirname "$0")/outputs_survive.sh"
