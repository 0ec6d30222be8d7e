# SPDX-License-Identifier: BSD-3-Clause
"""interrupted.py CALL SIGNAL COMMAND...: starts COMMAND, waits until one of its processes hangs in the system call of this number (of
bad_calls.c), and sends the signal. With "+" after the number it waits for a checkpoint, too. Prints the exit status, and after how
many milliseconds it came. Prints "ended" and the status if none hangs."""
import glob
import os
import signal
import subprocess
import sys
import time

call, checkpoint = sys.argv[1].rstrip("+"), sys.argv[1].endswith("+")
number, command = getattr(signal, "SIG" + sys.argv[2]), sys.argv[3:]


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def below(top):
    """Returns the processes below this one, and itself."""
    children, todo, found = {}, [top], []
    for path in glob.glob("/proc/[0-9]*/stat"):
        stat = read(path)
        if stat:
            children.setdefault(int(stat[stat.rindex(")") + 2:].split()[1]), []).append(int(stat.split()[0]))
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def hangs():
    tasks = [task for pid in below(process.pid) for task in glob.glob("/proc/%d/task/*" % pid)]
    return any(read(task + "/syscall").split(" ")[0] == call and "seccomp" in read(task + "/wchan") for task in tasks)


def has_checkpoint():
    """Without one the journal has FS_JOURNAL_LEAST bytes at most."""
    for path in glob.glob(".*.partial-*/journal"):
        try:
            if os.path.getsize(path) > 112:
                return True
        except FileNotFoundError: # it is being removed
            pass
    return False


process = subprocess.Popen(command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
until = time.monotonic() + 30
while process.poll() is None and not (hangs() and (not checkpoint or has_checkpoint())) and time.monotonic() < until:
    time.sleep(0.01)
if process.poll() is not None:
    print("ended", process.returncode)
    sys.exit()
if time.monotonic() > until and checkpoint and not has_checkpoint():
    process.kill()
    sys.exit("no checkpoint")
began = time.monotonic()
process.send_signal(number)
print(process.wait(), round((time.monotonic() - began) * 1000))
