#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 70
# slow
# Each of four daemons in turn dies (outputs_survive.sh). One that dies as the job ends, so that its successor has a long list of outputs
# when more come.
VICTIMS='0 1 2 3' bash "$(dirname "$0")/outputs_survive.sh" || exit
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"
rm -rf "${work:?}"/* # of the other script
small_outputs_dataset
cat >"$work/many.sh" <<'EOF'
make() {
  FANSTORE_NODE=$1 python3 -c 'import os, sys
os.mkdir(sys.argv[1])
for i in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/f{i}", "w") as f:
        f.write(str(i))' "$3/n$1" "$2"
}
make 1 2500 "$1" && make 2 15000 "$1" || exit
"$kill_daemon" 1 "$1"
EOF
mkdir "$work/staged"
expect_status 0 launch --dataset "$work/ds" --emulate 3 --output-replicas 1 --deadline 2000 --stage-out "$work/staged" -- bash "$work/many.sh" "$mnt"
equal "staged out" 17500 "$(find "$work/staged/n1" "$work/staged/n2" -type f | wc -l)"
echo "ok - a daemon that dies as the job ends"
