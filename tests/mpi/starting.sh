#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# Ways of starting a program: by MPI (docs/examples/mpi_data_parallel.py), by launchers that drop the environment (pdsh,
# with attach, with env, and with variables from a file as DeepSpeed reads it), as a Jupyter kernel
# (docs/examples/jupyter), and workers of multiprocessing. On emulated nodes and on two hosts.
. "$(dirname "$0")/../functions.sh"
python=/usr/bin/python3 # Debian's has mpi4py
need_module mpi4py numpy
random_files "$work/source" 64 4 3072
pack "$work/source" "$work/ds" --partitions 6 --mount "$mnt"
whole=$(cd "$work/source" && find . -type f -exec sha1sum {} + | sort | sha1sum)
cd "$work"
export OMP_NUM_THREADS=1
cat >sums.sh <<END
echo "\$(cd $mnt && find . -type f -exec sha1sum {} + | sort | sha1sum)"
END
by_both() { # WHAT: each of two nodes has read, and nothing came from shared storage
  equal "$1: nodes that were used, bytes from shared storage" "2 0" \
    "$(json r.json "'%d %d' % (sum(n['bytes_local'] + n['bytes_remote'] > 0 for n in r['nodes']), r['total']['bytes_shared'])")"
}

# ---- MPI ----
mpi_program=$root/docs/examples/mpi_data_parallel.py
as_root=()
[ "$(id -u)" != 0 ] || as_root=(--allow-run-as-root)
mpirun "${as_root[@]}" --oversubscribe -np 4 "$python" "$mpi_program" source >plain 2>err || fail "$(cat err)"
equal "epochs" 3 "$(grep -c 'loss [0-9]' plain)"
launch --dataset ds --emulate 2 --np 4 --report r.json -- "$python" "$mpi_program" "$mnt" >out 2>err || fail "$(cat err)"
diff plain out || fail "other losses"
by_both "mpi4py"
echo "ok - mpi4py: the same losses on two emulated nodes: $(tail -n 1 plain)"

# ---- workers of multiprocessing ----
cat >workers.py <<'END'
import hashlib, multiprocessing, os, sys
def one(path):
    with open(path, "rb") as f:
        return "%s  ./%s\n" % (hashlib.sha1(f.read()).hexdigest(), os.path.relpath(path, sys.argv[1]))
if __name__ == "__main__":
    paths = [os.path.join(d, f) for d, _, files in os.walk(sys.argv[1]) for f in files]
    for how in "fork", "spawn", "forkserver":
        with multiprocessing.get_context(how).Pool(2) as pool:
            print(hashlib.sha1("".join(sorted(pool.map(one, paths))).encode()).hexdigest(), "", "-")
END
launch --dataset ds --emulate 2 -- "$python" workers.py "$mnt" >out 2>err || fail "$(cat err)"
equal "workers" "$whole $whole $whole" "$(paste -sd' ' out)"
echo "ok - multiprocessing's workers by fork, spawn and forkserver"

# ---- a Jupyter kernel ----
job=$(launch --dataset ds --emulate 2 --daemon --discard 2>err) || fail "$(cat err)"
trap '"$bin/fs-launch" stop "$job" >/dev/null 2>&1 || :' EXIT
mkdir -p jupyter/kernels/fanstore home
cp "$root/docs/examples/jupyter/kernel.json" jupyter/kernels/fanstore
cat >kernel.py <<'END'
import sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="fanstore", startup_timeout=40)
def run(code):
    client.execute_interactive(code, timeout=40, allow_stdin=False)
try:
    run("import subprocess\nprint(subprocess.check_output(['sh', %r], text=True), end='')" % sys.argv[1])
    run("with open(%r, 'rb') as f: print(len(f.read()))" % sys.argv[2])
    manager.interrupt_kernel()
    run("print('still here')")
finally:
    client.stop_channels()
    manager.shutdown_kernel()
END
if "$python" -c 'import ipykernel, jupyter_client' 2>/dev/null; then
  file=$(cd source && find . -type f | head -n 1)
  env HOME="$work/home" JUPYTER_PATH="$work/jupyter" PATH="$bin:/usr/bin:$PATH" "$python" kernel.py "$work/sums.sh" "$mnt/$file" >out 2>err ||
    fail "$(tail -n 20 err)"
  equal "the kernel" "$whole 3072 still here" "$(paste -sd' ' out)"
  echo "ok - a Jupyter kernel in a job, which is interrupted and goes on"
else
  say "no ipykernel and jupyter_client here: no kernel"
fi
"$bin/fs-launch" stop "$job" 2>err || fail "$(cat err)"
trap - EXIT

# ---- two hosts ----
. "$root/tests/netns.sh"
netns_up 2
f() { netns_on h1 "$bin/fs-launch" "$@"; }
f --dataset "$work/ds" --local-dir "$net_local" --hostfile "$net_hostfile" --np 4 --report r.json -- \
  env OMP_NUM_THREADS=1 "$python" "$mpi_program" "$mnt" >out 2>err || fail "$(cat err)"
diff plain out || fail "other losses on two hosts"
by_both "mpi4py on two hosts"
echo "ok - mpi4py on two hosts"

need_command pdsh
job=$(f --dataset "$work/ds" --local-dir "$net_local" --hostfile "$net_hostfile" --daemon --discard 2>err) || fail "$(cat err)"
p() { # COMMAND: on both hosts, by a launcher that gives nothing of the environment
  env LD_PRELOAD= PDSH_RCMD_TYPE=exec pdsh -S -w h1,h2 "$net_agent" %h "$1" >out 2>&1 || fail "pdsh: $(cat out)"
  equal "pdsh $1" "$(printf '%s\n' "h1: $whole" "h2: $whole")" "$(sort out)"
}
p "$bin/fs-launch attach $job -- sh $work/sums.sh"
p "eval \"\$($bin/fs-launch env $job)\" && sh $work/sums.sh"
# DeepSpeed gives each line of this file to pdsh as export NAME=VALUE.
netns_on h1 sh -c "$bin/fs-launch env $job | sed \"s/^export //; s/'//g\"" >.deepspeed_env
[ "$(grep -cE '^(LD_PRELOAD|FANSTORE_[A-Z]*)=[^ ]*$' .deepspeed_env)" -ge 4 ] || fail "$(cat .deepspeed_env)"
p "$(sed 's/.*/export &;/' .deepspeed_env | paste -sd' ') sh $work/sums.sh"
netns_on h1 "$bin/fs-launch" stop "$job" >out 2>&1 || fail "$(cat out)"
grep -qE 'all 2 nodes: 384 dataset files opened, .* 0.0% shared storage' out || fail "$(cat out)"
grep -qE 'node 1 \(h2\): 192 dataset files opened' out || fail "$(cat out)"
echo "ok - pdsh: by attach, by env, and by a file of variables, each host has its own daemon"
