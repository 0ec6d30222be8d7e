# SPDX-License-Identifier: BSD-3-Clause
"""Output files and processes: outputs_processes.py MOUNT NODES. Each step runs programs on two of the nodes."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, equal, finish, start, step  # noqa: E402

mount, nodes = sys.argv[1], int(sys.argv[2])
work = os.path.join(mount, "processes")
last = nodes - 1
programs = Nodes(work, "import ctypes, multiprocessing, signal\nos.chdir(work)\n")
on = programs.on


def shell(node, script, *args, program="bash"):
    return finish(start(node, program, "-c", script, "-", *map(str, args), cwd=work))


def seen(node, name):
    return on(node, "sys.stdout.write(repr(open(sys.argv[2]).read()))", name)


os.mkdir(work)

# Programs that are started in an output directory, by one that has come to none itself: this one, as yet.
for i in range(2):
    for code, told in (("os.getcwd()", work), ("open('started', 'a').write('.')", 1), ("os.path.getsize('started')", i + 1)):
        seen_there = subprocess.run([sys.executable, "-c", f"import os; print({code})"], cwd=work, capture_output=True, text=True)
        equal(f"{code} in an output directory", f"{told}\n", seen_there.stdout)
os.unlink(os.path.join(work, "started"))
step("programs that are started in an output directory, one after another")

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

on(0, "open('spawned', 'w').write('home\\n')")
on(last, """
    actions = [(os.POSIX_SPAWN_OPEN, 1, work + '/spawned', os.O_WRONLY | os.O_APPEND, 0)]
    os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', 'echo spawned; exec /bin/echo twice'], os.environ, file_actions=actions), 0)
""")
for node in (0, last):
    equal("what a spawned program wrote", repr("home\nspawned\ntwice\n"), seen(node, "spawned"))
step("posix_spawn opens another node's file to be written")

# A child reads what it has inherited, whatever became of the name and of its parent's descriptor.
for how in ("fork", "_Fork", "exec"):
    on(0, "open('inherited', 'wb').write(os.urandom(1 << 20)); open('copy', 'wb').write(open('inherited', 'rb').read())")
    reader = programs.start(last, """
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
    """, how)
    assert reader.stdout.readline() == "closed\n"
    on(0, "os.unlink('inherited'), os.unlink('copy')")
    reader.stdin.write("go\n")
    finish(reader)
step("a child reads a removed file that its parent has closed")

# Standard output into another node's file: by builtins of shells, by programs, by programs of programs.
for program in ("bash", "dash"):
    on(0, "open('log', 'w').write('begin\\n')")
    expected = "begin\n"
    for i, script in enumerate((
            "echo {} >> log", "/bin/echo {} >> log", "/bin/echo {} 2>&1 >> log", "exec >> log; echo {}", "echo {} | cat >> log",
            "exec 3>> log; /bin/echo {} >&3", "(echo {}) >> log", "sh -c '/bin/echo {}' >> log", "echo {} | tee -a log > tee",
            "sed s/x/{}/ >> log << end\nx\nend\n", "printf '%s\\n' {} > new && mv new new2 && cat new2 >> log")):
        shell(last, script.format(f"line-{i}"), program=program)
        expected += f"line-{i}\n"
        for node in (0, last):
            equal(f"{program}: {script}", repr(expected), seen(node, "log"))
    shell(last, "{ echo a; /bin/echo b; cat; } > log << end\nc\nend\necho d >> log", program=program)
    equal(f"{program}: cut and written", repr("a\nb\nc\nd\n"), seen(0, "log"))
    shell(last, "exec 4> log; echo a >&4; /bin/echo b >&4; sh -c 'echo c >&4'; echo d >&4", program=program)
    equal(f"{program}: by one descriptor", repr("a\nb\nc\nd\n"), seen(0, "log"))
step("shells' redirections into another node's file")

on(last, """
    import subprocess
    with open('log', 'a') as f:
        f.write('own\\n'), f.flush()
        subprocess.run(['/bin/echo', 'run'], stdout=f, check=True)
        f.write('own again\\n')
    with open('log', 'a') as f:
        subprocess.run('echo shell; ls nothing', stdout=f, stderr=subprocess.STDOUT, shell=True)
    with open('errors', 'w') as f:
        subprocess.run([sys.executable, '-c', 'print("out"); raise SystemExit(3)'], stdout=f, stderr=f)
""")
equal("subprocess", ["a", "b", "c", "d", "own", "run", "own again", "shell"], on(0, "print(open('log').read())").split("\n")[:-1])
equal("errors", repr("out\n"), seen(0, "errors"))
step("subprocess with another node's file as its standard output")

on(0, "open('first', 'w').close()")
on(last, """
    fd = os.open('first', os.O_WRONLY)
    os.dup2(fd, 1), os.write(fd, b'abc'), os.fsync(fd)
    sys.exit(open('first').read() != 'abc')
""")
step("fsync of the descriptor whose copy is standard output")

# What others write by the same descriptor meanwhile is not waited for.
on(0, "open('busy', 'w').write('begin\\n')")
shell(last, "(while :; do echo x; done & sleep 0.2; timeout 30 /bin/echo end || kill -9 0; kill $!) >> busy")
busy = on(0, "print(open('busy').read())").split("\n")
assert "end" in busy, f"end is not there: {busy[:9]}...{busy[-9:]}"
step("a program ends while others go on writing to its standard output")

# Programs that move and cut their standard output: nothing but what they write is theirs.
DD = (("conv=notrunc bs=4096 seek=2", "B" * 4096, "A" * 8192 + "B" * 4096 + "A" * 8192),
      ("bs=4096 seek=2", "B" * 4096, "A" * 8192 + "B" * 4096),
      ("conv=notrunc bs=1 seek=5", "BC", "A" * 5 + "BC" + "A" * (20480 - 7)),
      ("conv=notrunc bs=1000 seek=21", "B", "A" * 20480 + "\0" * 520 + "B"),
      ("bs=3 seek=1", "BCDE", "AAABCDE"), ("bs=5", "BCDEFG", "BCDEFG"))
for options, data, expected in DD:
    on(0, "open('moved', 'w').write('A' * 20480)")
    shell(last, f"printf %s {data} | dd of=moved status=none {options}")
    for node in (0, last):
        equal(f"dd {options}", repr(expected), seen(node, "moved"))
on(0, "open('moved', 'w').write('0' * 10000)")
movers = [start(k % nodes, "bash", "-c", f"printf %s {str(k) * 1000} | dd of=moved status=none conv=notrunc bs=1000 seek={k}", cwd=work)
          for k in range(1, 9)]
for m in movers:
    finish(m)
equal("many dd", repr("".join(str(k) * 1000 for k in range(9)) + "0" * 1000), seen(0, "moved"))
step("standard output that is moved and cut: dd seek=")

# Many at once: no line is lost, torn or there twice.
on(0, "open('many', 'w').close()")
LINES = 'for i in $(seq 60); do echo "$1 builtin $i" >> many; done; for i in $(seq 15); do /bin/echo "$1 echo $i" >> many; done'
LINES += '; [ "$FANSTORE_NODE" = 0 ] || seq -f "$1 seq %.0f" 20000 >> many'  # at home the kernel appends parts of lines
writers = [start(k % nodes, "bash", "-c", LINES, "-", str(k), cwd=work) for k in range(4)]
for w in writers:
    finish(w)
lines = on(0, "print(open('many').read())").split("\n")
equal("lines", sorted(f"{k} {how} {i}" for k in range(4) for how, n in (("builtin", 60), ("echo", 15), ("seq", 20000))
                      for i in range(1, n + 1) if how != "seq" or k % nodes > 0), sorted(lines))
step("redirections of several nodes into one file lose and tear no line")

# Seen while it runs; and all of it is there when the program is killed.
on(0, "open('live', 'w').close()")
writer = start(last, "bash", "-c", "exec >> live; echo $$; while sleep 0.01; do echo x; done", cwd=work)
end = time.monotonic() + 20
while on(0, "print(open('live').read().count('x'))") == "0":
    assert time.monotonic() < end, "nothing is seen"
    time.sleep(0.1)
writer.kill()
writer.wait()
SIZE = "print(os.stat('live').st_size)"
size = on(0, SIZE)
while True:
    time.sleep(1.2)
    now = on(0, SIZE)
    if now == size:
        break
    assert time.monotonic() < end, "it grows on"
    size = now
equal("in the end", size, on(last, SIZE))
step("seen while the program runs, and after it was killed")

# O_APPEND by all calls, each in one piece; stdio with wide characters and freopen.
on(0, "open('pieces', 'w').write('begin\\n')")
on(last, """
    fd = os.open('pieces', os.O_WRONLY | os.O_APPEND)
    assert os.pwrite(fd, b'pwrite\\n', 0) == 7
    assert os.writev(fd, [b'wri', b'', b'tev\\n']) == 7 and os.pwritev(fd, [b'pwri', b'tev\\n'], 2) == 8
    os.close(fd)
""")
equal("pieces", repr("begin\npwrite\nwritev\npwritev\n"), seen(0, "pieces"))
PIECES = """
    fd = os.open('pieces', os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
    for i in range(20):
        n = sys.argv[2] * (10 if i % 4 else 30000)
        assert os.writev(fd, [b'<', n.encode(), b'>\\n']) == len(n) + 3
"""
on(0, "open('pieces', 'w').close()")
for w in [programs.start(k % nodes, PIECES.replace(" | os.O_TRUNC", ""), k)
          for k in range(4)]:
    finish(w)
equal("whole pieces", sorted([f"<{str(k) * 10}>" for k in range(4)] * 15 + [f"<{str(k) * 30000}>" for k in range(4)] * 5),
      sorted(on(0, "print(open('pieces').read())").split("\n")))
on(last, """
    libc = ctypes.CDLL(None)
    libc.fopen.restype = libc.freopen.restype = ctypes.c_void_p
    libc.setlocale(6, b'C.UTF-8')
    def file(call, *args):
        f = ctypes.c_void_p(call(*args))
        assert f.value, ctypes.get_errno()
        return f
    for i, mode in enumerate((b'w', b'a')):
        f = file(libc.fopen, b'pieces', mode)
        assert libc.fputws(ctypes.c_wchar_p('w\u00f6rld %d\\n' % i), f) >= 0 and libc.fclose(f) == 0
    f = file(libc.freopen, b'pieces', b'a', file(libc.fopen, b'/dev/null', b'w'))
    assert libc.fputs(b'again\\n', f) >= 0 and libc.fclose(f) == 0
""")
equal("stdio", repr("w\u00f6rld 0\nw\u00f6rld 1\nagain\n"), seen(0, "pieces"))
step("appending by pwrite and writev, wide characters, freopen")

# tail follows another node's log.
on(0, "open('followed', 'w').write('one\\n')")
for how in ("-f", "-F"):
    tail = start(last, "tail", how, "-s", "0.2", "followed", cwd=work)
    assert tail.stdout.readline() == "one\n"
    shell(0, f"echo more {how} >>followed")
    while (line := tail.stdout.readline()) != f"more {how}\n":
        assert line.startswith("more"), line
    tail.kill(), tail.wait()
step("tail -f and -F of another node's file")

# The same while its writer keeps it open and never syncs it: a shell, awk, and C's stdio with its buffer flushed.
KEPT = ("exec 3>>kept; while read -r line; do echo \"$line\" >&3; done", "awk '{ print >>\"kept\"; fflush() }'", "stdbuf -oL sed -n p >>kept")
for i, script in enumerate(KEPT):
    on(0, "open('kept', 'a').write('one\\n')")
    tail = start(last, "tail", "-n", "1", "-f", "-s", "0.1", "kept", cwd=work)
    assert tail.stdout.readline() == "one\n"
    writer = start(0, "bash", "-c", script, cwd=work)
    for k in range(3):
        began = time.monotonic()
        writer.stdin.write(f"kept {i} {k}\n"), writer.stdin.flush()
        equal("followed", f"kept {i} {k}\n", tail.stdout.readline())
        took = time.monotonic() - began
        assert took < 3, f"{script}: {took} s"  # two seconds, tail's look, and a busy machine
    writer.stdin.close(), writer.wait(), tail.kill(), tail.wait()
step("tail -f of another node's file that stays open, two seconds behind at most")

# A file of this node that is written by a mapping: msync, munmap and the end of the process publish it.
mapper = programs.start(0, """
    import mmap
    fd = os.open('mapped', os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 8192)
    m = mmap.mmap(fd, 8192)
    for line in sys.stdin:
        m[:5] = m[5000:5005] = line[:5].encode()
        m.flush() if line[5] == 'f' else m.close() if line[5] == 'c' else os._exit(0)
        print('done', flush=True)
        if line[5] == 'c':
            m = mmap.mmap(os.open('mapped', os.O_RDWR), 8192)
""")
for text, how in (("first", "f"), ("other", "f"), ("third", "c"), ("again", "e")):
    mapper.stdin.write(text + how + "\n"), mapper.stdin.flush()
    if how == "e":
        finish(mapper)
    else:
        assert mapper.stdout.readline() == "done\n"
    equal(f"mapped: {text}", f"{text} {text}", on(last, "d = open('mapped', 'rb').read(); print(d[:5].decode(), d[5000:5005].decode())"))
step("stores by a mapping are published by msync, munmap and the end")
