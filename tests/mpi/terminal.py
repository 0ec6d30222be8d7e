# SPDX-License-Identifier: BSD-3-Clause
"""terminal.py TEXT KEY COMMAND...: runs COMMAND on a terminal of its own, in its foreground, and types KEY (in hexadecimal; or
sends it signal KEY, as SIGTERM) when TEXT has appeared. Prints what appears; the exit status is COMMAND's, as a shell has it."""
import os
import pty
import signal
import sys

text, key, command = sys.argv[1].encode(), sys.argv[2], sys.argv[3:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
signal.alarm(60)  # COMMAND dies of the hang-up
seen, pressed = b"", False
while True:
    try:
        got = os.read(terminal, 65536)
    except OSError:  # nobody has it open any more
        break
    sys.stdout.buffer.write(got)
    seen += got
    if not pressed and text in seen:
        pressed = True
        if key.startswith("SIG"):
            os.kill(pid, getattr(signal, key))
        else:
            os.write(terminal, bytes.fromhex(key))
sys.stdout.flush()
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(status if status >= 0 else 128 - status)
