#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 35
# torch and torchvision: loading, mapping, DataLoaders with all kinds of workers.
. "$(dirname "$0")/harness.bash"
need_module torch torchvision PIL

export FS_CLIENTS_SECONDS=280 # one interpreter for all cases
data() { "$python" "$root/tests/clients/python/make_torch.py" "$1" 2>"$work/make.log"; }
many torch '"$PYTHON" "$C/python/torch_cases.py" "$D" "$W/s"'
compare
