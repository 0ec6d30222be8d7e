#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 600
# slow
# Most faults of `make check-faults` once (tests/faults/run.sh).
exec bash "$(dirname "$0")/../faults/run.sh" --short
