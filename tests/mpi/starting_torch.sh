#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 40
# slow
# docs/examples/ddp.py has the same losses on a plain directory and below the mount: started by two agents of torchrun with
# two ranks each, on emulated nodes (a rank dies first, and the agents start all again), and by hand on two hosts; by
# mp.spawn, with workers of DataLoaders by forkserver.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
python=/usr/bin/python3 # Debian's has torch
"$python" -c 'import torch' 2>/dev/null || skip "no torch for $python"
need_command torchrun
random_files "$work/source" 64 4 3072
pack "$work/source" "$work/ds" --partitions 6 --mount "$mnt"
cd "$work"
export OMP_NUM_THREADS=1
program=$root/docs/examples/ddp.py
"$python" "$program" source --spawn 4 >plain 2>err || fail "$(cat err)"
equal "epochs" 2 "$(grep -c 'loss [0-9]' plain)"
same() { # WHAT: its output has the losses; torchrun prints the rank before a line
  sed -n 's/^\(\[default[0-9]\]:\)*\(epoch .*\)/\2/p' out >losses
  diff plain losses || fail "$1: other losses: $(cat err)"
}
by_both() { # WHAT: each node has served itself and the other one
  equal "$1: bytes of each node, and from shared storage" "[196608, 196608] 0" \
    "$(json r.json "'%s %d' % ([n['bytes_local'] + n['bytes_remote'] + n['bytes_cache'] for n in r['nodes']], r['total']['bytes_shared'])")"
}

# Debian 12's torchrun fails without --redirects and --tee.
agents=(torchrun --redirects 1 --tee 1 --nnodes 2 --nproc_per_node 2 --rdzv_backend c10d --rdzv_id x)
port=$("$python" "$root/tests/setup/ports.py" 1)
cat >dies.py <<END
import os, runpy, sys
if os.environ["RANK"] == "3" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    print("dies with", len(os.listdir(sys.argv[1])), "directories", flush=True)
    sys.exit(1)
runpy.run_path("$program", run_name="__main__")
END
launch --dataset ds --emulate 2 --np 2 --report r.json -- "${agents[@]}" --max_restarts 1 --rdzv_endpoint "localhost:$port" \
  dies.py "$mnt" >out 2>err || fail "$(cat out err)"
grep -q 'dies with 4 directories' out || fail "no rank died: $(cat out)"
same "two agents"
by_both "two agents"
echo "ok - two agents of torchrun, on emulated nodes; all ranks start again after one has died: $(tail -n 1 losses)"

launch --dataset ds --emulate 2 -- "$python" "$program" "$mnt" --spawn 4 --workers 1 --context forkserver --epochs 1 >out 2>err ||
  fail "$(cat err)"
equal "mp.spawn" "$(head -n 1 plain)" "$(cat out)"
echo "ok - mp.spawn, with DataLoaders' workers by forkserver"

netns_up 2
job=$(netns_on h1 "$bin/fs-launch" --dataset "$work/ds" --local-dir "$net_local" --hostfile "$net_hostfile" --report r.json \
  --discard --daemon 2>err) || fail "$(cat err)"
agent() { # HOST: torchrun by hand
  netns_on "$1" "$bin/fs-launch" attach "$job" -- env OMP_NUM_THREADS=1 "${agents[@]}" --rdzv_endpoint h1:29500 "$program" "$mnt"
}
agent h2 >out.h2 2>&1 &
agent h1 >out 2>err || fail "$(cat out err)"
wait $! || fail "$(cat out.h2)"
cat out.h2 >>out
netns_on h1 "$bin/fs-launch" stop "$job" 2>err || fail "$(cat err)"
same "two agents on two hosts"
by_both "two agents on two hosts"
echo "ok - two agents of torchrun, on two hosts, started by hand"
