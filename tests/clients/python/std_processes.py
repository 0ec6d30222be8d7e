# SPDX-License-Identifier: BSD-3-Clause
"""Python's processes and threads over files of a dataset: fork, exec, spawn, subprocess, multiprocessing, asyncio. See
cases.py."""
import array
import asyncio
import concurrent.futures
import fcntl
import multiprocessing
import multiprocessing.reduction
import os
import pty
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading

from cases import attempt, base, case, digest, main, read, scratch, set_directories, show

SHOW_FD = "import os, sys; fd = int(sys.argv[1]); print(os.read(fd, 9), os.fstat(fd).st_size, os.lseek(fd, 0, 1))"


def run(*args, **options):
    r = subprocess.run(*args, capture_output=True, text=True, check=False, **options)
    show(r.returncode, r.stdout, r.stderr)


def content(i):
    return i, digest(read(f"bin/f{i % 60}.bin"))


@case
def subprocess_cwd():
    run(["pwd", "-P"], cwd=base("walk/d1"))
    run(["cat", "e0/file0.txt"], cwd=base("walk/d1"))
    run(["/bin/sh", "-c", "cd ../d2; pwd; ls; cat <data2.csv"], cwd=base("links/directory"))
    run([sys.executable, "-c", "import os; print(os.getcwd(), sorted(os.listdir()))"], cwd=base("walk"))
    show(attempt(run, ["true"], cwd=base("none")), attempt(run, ["true"], cwd=base("text/a.txt")))


@case
def subprocess_stdin():
    for shell in False, True:
        with open(base("bin/big.bin"), "rb") as f:
            run("md5sum", shell=shell, stdin=f)
        with open(base("text/a.txt"), "rb") as f:
            f.seek(100)
            run(["head", "-n", "1"], stdin=f)
    with open(base("text/a.txt"), "rb", buffering=0) as f:
        f.read(14)
        run([sys.executable, "-c", "import sys; print(sys.stdin.readline(), sys.stdin.fileno())"], stdin=f)
    with open(base("text/a.txt"), "rb") as f, open(scratch("out"), "wb") as out:
        show(subprocess.call(["sort", "-r"], stdin=f, stdout=out))
    show(digest(open(scratch("out"), "rb").read()))


@case
def subprocess_shares_offset():
    with open(base("text/a.txt"), "rb", buffering=0) as f:
        for _ in range(3):
            run(["dd", "bs=7", "count=1", "status=none"], stdin=f)
            show(f.tell())
        show(f.readline())


@case
def subprocess_descriptors():
    with open(base("text/a.txt"), "rb", buffering=0) as f:
        f.read(10)
        for close in True, False:
            run([sys.executable, "-c", SHOW_FD, str(f.fileno())], pass_fds=[f.fileno()], close_fds=True)
            show(f.tell())
            r = subprocess.run([sys.executable, "-c", SHOW_FD, str(f.fileno())],
                               close_fds=close,
                               capture_output=True,
                               check=False)
            show(r.returncode, b"Bad file descriptor" in r.stderr)
        os.set_inheritable(f.fileno(), True)
        run([sys.executable, "-c", SHOW_FD, str(f.fileno())], close_fds=False)
        run(["sh", "-c", f"cat <&{f.fileno()} | wc -c"], close_fds=False)


@case
def subprocess_options():
    with open(base("text/a.txt"), "rb", buffering=0) as f:
        run(["cat", "text/empty.txt", "modes/644"], cwd=base(), preexec_fn=lambda: f.read(7), start_new_session=True)
        show(f.tell())
        run(["sh", "-c", "umask; pwd"], cwd=base("text"), umask=0o27, process_group=0, env={**os.environ, "NEW": "1"})
    run(["cat", base("modes/644")], start_new_session=True, restore_signals=False)
    with subprocess.Popen(["cat", base("text/a.txt"), "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        out, _ = p.communicate(read("text/crlf.txt"))
        show(out)
    show(
        os.popen(f"head -n 1 {base('text/a.txt')}").read(),
        os.system(f"md5sum <{base('text/a.txt')} >{scratch('out')}"))


@case
def subprocess_empty_environment():
    with open(base("text/a.txt"), "rb", buffering=0) as f:
        f.read(7)
        run(["md5sum"], stdin=f, env={"PATH": os.environ["PATH"]})
        run(["cat", "a.txt"], cwd=base("text"), env={})


@case
def subprocess_programs():
    run([base("exec/program"), "a", base("text")])
    run([base("exec/script.sh"), "one"])
    run([base("exec/script.py"), base("text/a.txt")])
    run(["program", "x"], executable=base("exec/program"))
    run(["./program"], cwd=base("exec"))
    run(["program", "y"], env={**os.environ, "PATH": base("exec") + ":" + os.environ["PATH"]})
    show(attempt(run, [base("exec/not-executable.sh")]), attempt(run, [base("exec/none")]),
         attempt(run, [base("exec")]))
    run([sys.executable, base("lib/single.py"), "arg"])
    run([sys.executable, "-m", "package"], cwd=base("lib"))
    run([sys.executable, base("lib/modules.zip")])


@case
def interpreters():
    words = ["-c", "import sys, only_there; print(only_there.VALUE, sys.prefix, sys.executable, only_there.__file__)"]
    run([base("venv/bin/python"), *words])
    run([base("venv/bin/copied"), *words])
    run(["venv/bin/python", *words], cwd=base())
    writes = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    run([sys.executable, "-c", "import package; print(package.NAME)"], env={**writes, "PYTHONPATH": base("lib")})
    show(os.path.exists(base("lib/__pycache__")))


@case
def terminals():
    with open(scratch("out"), "wb") as out:

        def keep(fd):
            data = os.read(fd, 1024)
            out.write(data)
            return data

        stdout = os.dup(1)
        os.dup2(out.fileno(), 1)
        try:
            status = pty.spawn(["cat", base("text/crlf.txt"), base("modes/644")], keep)
        finally:
            os.dup2(stdout, 1)
            os.close(stdout)
    show(status, os.path.getsize(scratch("out")))


@case
def few_descriptors():
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
        files = []
        try:
            while len(files) < 100:
                files.append(open(base("text/a.txt"), "rb"))
        except OSError as e:
            show(e.errno, 30 < len(files) < 60)
        files.pop().close()
        show(open(base("modes/644"), "rb").read(), all(f.read(4) == b"line" for f in files))
        os._exit(0)
    show(os.waitpid(pid, 0)[1])


@case
def exec_in_child():
    for how in (lambda: os.execv("/bin/cat", ["cat", base("modes/755")]),
                lambda: os.execvp("cat", ["cat", base("modes/644")]),
                lambda: os.execve(base("exec/program"), ["p", "1"], dict(os.environ)),
                lambda: os.execl(base("exec/script.sh"), "s")):
        with open(scratch("out"), "w+b") as out:
            pid = os.fork()
            if pid == 0:
                os.dup2(out.fileno(), 1)
                try:
                    how()
                finally:
                    os._exit(99)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            out.seek(0)
            show(status, out.read())


@case
def fork_shares_offset():
    f = open(base("text/a.txt"), "rb", buffering=0)
    f.read(10)
    for n in 5, 700:
        pid = os.fork()
        if pid == 0:
            f.read(n)
            os._exit(0)
        os.waitpid(pid, 0)
        show(f.tell())
    pid = os.fork()
    if pid == 0:
        f.close()
        os._exit(os.system(f"cmp {base('text/a.txt')} {base('links/hard')}"))
    show(os.waitpid(pid, 0)[1], f.readline())
    f.close()


def spawn(file, arguments, **options):
    with open(scratch("out"), "w+b") as out:
        actions = [*options.pop("file_actions", []), (os.POSIX_SPAWN_DUP2, out.fileno(), 1)]
        pid = os.posix_spawn(file, arguments, os.environ, file_actions=actions, **options)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        show(status, out.read())


@case
def spawn_actions():
    fd = os.open(base("text/a.txt"), os.O_RDONLY)
    os.read(fd, 7)
    spawn("/usr/bin/head", ["head", "-n", "1"],
          file_actions=[(os.POSIX_SPAWN_OPEN, 0, base("text/a.txt"), os.O_RDONLY, 0)])
    spawn("/bin/cat", ["cat"], file_actions=[(os.POSIX_SPAWN_DUP2, fd, 0)])
    spawn(sys.executable, ["python3", "-c", SHOW_FD, "9"],
          file_actions=[(os.POSIX_SPAWN_OPEN, 9, base("text/a.txt"), os.O_RDONLY, 0)])
    os.lseek(fd, 14, 0)
    spawn(sys.executable, ["python3", "-c", SHOW_FD, "9"],
          file_actions=[(os.POSIX_SPAWN_DUP2, fd, 9), (os.POSIX_SPAWN_CLOSE, fd)])
    show(os.lseek(fd, 0, 1))
    spawn(base("exec/program"), ["program", "a"])
    spawn("/bin/sh", ["sh", "-c", "exec 2>/dev/null; cat <&9"], file_actions=[(os.POSIX_SPAWN_CLOSE, fd)], setpgroup=0)
    show(attempt(spawn, base("exec/none"), ["none"]))
    os.close(fd)


@case
def spawn_action_fails():
    for name in "none", "text/a.txt/none":
        actions = [(os.POSIX_SPAWN_OPEN, 0, base(name), os.O_RDONLY, 0)]
        show(attempt(spawn, "/bin/true", ["true"], file_actions=actions))


@case
def send_descriptors():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with open(base("text/a.txt"), "rb", buffering=0) as f:
        f.read(7)
        socket.send_fds(a, [b"x"], [f.fileno()])
        _, fds, _, _ = socket.recv_fds(b, 10, 5)
        show(os.read(fds[0], 7), f.tell(), os.fstat(fds[0]).st_size)
        pid = os.fork()
        if pid == 0:
            a.sendmsg([b"y"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f.fileno()]))])
            os._exit(0)
        os.waitpid(pid, 0)
        _, more, _, _ = socket.recv_fds(b, 10, 5)
        show(os.read(more[0], 7), f.tell())
    for fd in fds + more:
        os.close(fd)


@case
def threads():
    results = queue.Queue()

    def work(k):
        for i in range(k, 300, 8):
            results.put(content(i))

    pool = [threading.Thread(target=work, args=(k, )) for k in range(8)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    show(digest(repr(sorted(results.queue)).encode()))
    with concurrent.futures.ThreadPoolExecutor(6) as executor:
        show(digest(repr(list(executor.map(content, range(300)))).encode()))
    with open(base("bin/big.bin"), "rb") as f, concurrent.futures.ThreadPoolExecutor(6) as executor:
        show(digest(b"".join(executor.map(lambda i: os.pread(f.fileno(), 10000, i * 10000), range(300)))))


def from_duplicate(duplicate):
    with open(duplicate.detach(), "rb") as f:
        return f.read(14), f.tell()


def with_file(method):
    context = multiprocessing.get_context(method)
    with context.Pool(2, initializer=set_directories, initargs=(base(""), scratch(""))) as pool:
        show(method, digest(repr(pool.map(content, range(120), chunksize=7)).encode()))
        show(digest(repr(sorted(pool.imap_unordered(content, range(60)))).encode()))


@case
def pools():
    for method in "fork", "spawn", "forkserver":
        with_file(method)


@case
def process_executor():
    for method in "fork", "spawn":
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context(method), set_directories,
                                                    (base(""), scratch(""))) as executor:
            show(method, digest(repr(list(executor.map(content, range(60)))).encode()))


def receive(connection):
    fd = multiprocessing.reduction.recv_handle(connection)
    with open(fd, "rb") as f:
        connection.send((f.read(7), f.tell()))


@case
def handles_between_processes():
    for method in "fork", "spawn", "forkserver":
        context = multiprocessing.get_context(method)
        ours, theirs = context.Pipe()
        child = context.Process(target=receive, args=(theirs, ))
        child.start()
        with open(base("text/a.txt"), "rb", buffering=0) as f:
            f.read(14)
            multiprocessing.reduction.send_handle(ours, f.fileno(), child.pid)
            show(method, ours.recv(), attempt(multiprocessing.reduction.ForkingPickler.dumps, f))
        child.join()
    with open(base("text/a.txt"), "rb") as f, multiprocessing.get_context("fork").Pool(1) as pool:
        show(attempt(pool.apply, from_duplicate, (multiprocessing.reduction.DupFd(f.fileno()), )))


@case
def asynchronous():

    async def line(i):
        return await asyncio.to_thread(content, i)

    async def child(*command, **options):
        p = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, **options)
        return (await p.communicate())[0]

    async def reader(path):
        with open(path, "rb") as f:
            loop = asyncio.get_running_loop()
            refused = attempt(loop.add_reader, f.fileno(), print)
            return len(await loop.run_in_executor(None, f.read)), refused.split("]")[0]

    async def everything():
        show(digest(repr(await asyncio.gather(*map(line, range(60)))).encode()))
        with open(base("text/a.txt"), "rb") as f:
            show(await child("md5sum", stdin=f), await child("cat", "modes/644", cwd=base()))
        show(await reader(base("bin/big.bin")))

    async def send():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
        show(digest(await r.read()))
        w.close()
        server.close()

    async def serve(_, writer):
        with open(base("bin/big.bin"), "rb") as f:
            await asyncio.get_running_loop().sendfile(writer.transport, f)
        writer.close()

    asyncio.run(everything())
    asyncio.run(send())


@case
def signals():
    got = []
    signal.signal(signal.SIGALRM, lambda *_: got.append(read("text/a.txt")[:6]))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    sums = {digest(read("bin/compressible.bin")) for _ in range(60)}
    signal.setitimer(signal.ITIMER_REAL, 0)
    show(sums, set(got))


@case
def locks():
    with open(base("text/a.txt"), "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        pid = os.fork()
        if pid == 0:
            with open(base("text/a.txt"), "rb") as g:
                fcntl.flock(g, fcntl.LOCK_SH)
            os._exit(0)
        fcntl.flock(f, fcntl.LOCK_UN)
        show(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    main()
