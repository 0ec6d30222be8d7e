# SPDX-License-Identifier: BSD-3-Clause
"""ports.py COUNT: prints so many TCP ports of this host that no program has.

They lie below the range from which Linux takes the port of a connection or of a program that asks for any: until the
caller's server starts, some seconds later, no other program gets one of them by chance.
"""
import random
import socket
import sys

with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
    first = int(f.read().split()[0])
ports = []
for port in random.sample(range(first // 2, first), first - first // 2):
    if len(ports) == int(sys.argv[1]):
        break
    with socket.socket() as s:
        try:
            s.bind(("", port))
        except OSError:
            continue
    ports.append(port)
print(*ports)
