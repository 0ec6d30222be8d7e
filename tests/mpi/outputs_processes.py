# SPDX-License-Identifier: BSD-3-Clause
"""Output files and processes: outputs_processes.py MOUNT NODES. Each step runs programs on two of the nodes."""
import os
import subprocess
import sys
import textwrap
import time

mount, nodes = sys.argv[1], int(sys.argv[2])
work = os.path.join(mount, "processes")
last = nodes - 1
PRELUDE = "import ctypes, multiprocessing, os, signal, sys, time\nwork = sys.argv[1]\nos.chdir(work)\n"


def start(node, command, **kwargs):
    env = {**os.environ, "FANSTORE_NODE": str(node)}
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **kwargs)


def finish(process):
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, f"status {process.returncode}"
    return out.strip()


def on(node, code, *args):
    return finish(start(node, [sys.executable, "-c", PRELUDE + textwrap.dedent(code), work, *map(str, args)]))


def shell(node, script, *args, program="bash"):
    return finish(start(node, [program, "-c", script, "-", *map(str, args)], cwd=work))


def seen(node, name):
    return on(node, "sys.stdout.write(repr(open(sys.argv[2]).read()))", name)


def equal(what, expected, got):
    assert expected == got, f"{what}: {got!r} instead of {expected!r}"


def step(text):
    print("ok -", text)


os.mkdir(work)

# Ends without destructors. The file's home is node 0; it is written there and on another node.
ENDS = {
    "os._exit": "os._exit(0)",
    "_Exit": "ctypes.CDLL(None)._Exit(0)",
    "quick_exit": "ctypes.CDLL(None).quick_exit(0)",
    "syscall": "ctypes.CDLL(None).syscall(231 if os.uname().machine == 'x86_64' else 94, 0)",
    "signal": "signal.signal(signal.SIGTERM, lambda *a: os._exit(0)); os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)",
    "fork": "pid = os.fork(); pid or os._exit(0); os.waitpid(pid, 0); os._exit(0)",
}
for name, end in ENDS.items():
    for node in (0, last):
        on(0, "open(sys.argv[2], 'w').write('x' * 10)", name)
        on(node, f"fd = os.open({name!r}, os.O_RDWR); os.pwrite(fd, b'end', 7); {end}")
        for other in (0, last):
            equal(f"{name} of node {node}, seen by {other}", repr("x" * 7 + "end"), seen(other, name))
        os.unlink(os.path.join(work, name))
step("what was written before _exit, _Exit and quick_exit is published")

on(0, "[open(f'worker.{i}', 'w').write('-') for i in range(4)]")
WORKERS = """
def work_on(i):
    global fd
    fd = os.open(f'worker.{i}', os.O_WRONLY)  # and not closed
    os.write(fd, b'result %d' % i)
    return i
if __name__ == '__main__':
    how = multiprocessing.get_context('fork')
    all = [how.Process(target=work_on, args=(i,)) for i in range(4)]
    [p.start() for p in all], [p.join() for p in all]
    sys.exit(any(p.exitcode for p in all))
"""
on(last, WORKERS)
for i in range(4):
    equal("a worker's", repr(f"result {i}"), seen(0, f"worker.{i}"))
step("workers of multiprocessing that do not close their files")

# A child reads what it has inherited, whatever became of the name and of its parent's descriptor.
for how in ("fork", "_Fork", "exec"):
    on(0, "open('inherited', 'wb').write(os.urandom(1 << 20)); open('copy', 'wb').write(open('inherited', 'rb').read())")
    reader = start(last, [sys.executable, "-c", PRELUDE + textwrap.dedent("""
        import subprocess
        how, check = sys.argv[2], '''if True:
            import os, sys
            sys.stdin.readline()
            a, b = (b''.join(iter(lambda: os.read(int(fd), 1 << 16), b'')) for fd in sys.argv[1:3])
            sys.exit(a != b or len(a) != 1 << 20)'''
        fd, copy = os.open('inherited', os.O_RDONLY), os.open('copy', os.O_RDONLY)
        os.set_inheritable(fd, True), os.set_inheritable(copy, True)
        if how == 'exec':
            child = subprocess.Popen([sys.executable, '-c', check, str(fd), str(copy)], pass_fds=(fd, copy)).pid
        else:
            child = os.fork() if how == 'fork' else ctypes.CDLL(None)._Fork()
            if child == 0:
                sys.argv[1:] = [str(fd), str(copy)]
                try:
                    exec(check)
                except SystemExit as e:
                    os._exit(bool(e.code))
                finally:
                    os._exit(9)
        os.close(fd), os.close(copy)
        print('closed', flush=True)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """), work, how])
    assert reader.stdout.readline() == "closed\n"
    on(0, "os.unlink('inherited'), os.unlink('copy')")
    reader.stdin.write("go\n")
    finish(reader)
step("a child reads a removed file that its parent has closed")
