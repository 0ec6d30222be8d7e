#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1200
# long: 200
# slow
# waits
# Most faults of `make check-fault-table` once (tests/fault/table/run.sh).
exec bash "$(dirname "$0")/table/run.sh" --short
