# SPDX-License-Identifier: BSD-3-Clause
"""What the library costs calls outside the mounts, with one mount: the main figures of `make bench-overhead`."""
import os

import overhead

MISSING = ("stat_missing", "stat_missing_deep", "stat_missing_linked", "open_missing", "access_missing_relative")
TWO_CALLS = ("open_close", "openat_close", "dup_close", "socket_close", "mmap_munmap", "fopen_fclose", "opendir_closedir",
             "opendir_list_closedir")


def extra_calls(ctx, env, names, directory):
    """System calls that a call makes more with the library than without, by strace."""
    extra = {}
    for name in names:
        native, library = (overhead.system_calls(ctx.tool("overhead"), env, name, side, directory, ctx.work)
                           for side in ("native", "library"))
        if native is not None:
            extra[name] = library - native
    return extra


def worst(ctx, what, unit, figures, limit):
    if figures:
        name = max(figures, key=figures.get)
        ctx.bound(what, unit, figures[name], limit, name.replace("_", " "))


def run(ctx):
    directory, source = ctx.dir("calls"), ctx.dir("source")
    with open(os.path.join(source, "file"), "w") as f:
        f.write("x\n")
    env = overhead.mounts(ctx.work, ctx.pack(source, "outside"), 1)
    printed = overhead.run([ctx.tool("overhead"), "-r", "21" if ctx.quick else "501"] + overhead.using(ctx.work, 1) +
                           [directory], env)
    added = {name: float(more) / (2 if name in TWO_CALLS else 1)
             for name, _, more in (line.split() for line in printed.splitlines())}
    alone = {name: added.pop("limit_" + name.removeprefix("stat_")) for name in ("stat_missing", "stat_missing_deep")}
    usual = {name: ns for name, ns in added.items() if name not in MISSING}
    worst(ctx, "added to a call, the worst of %d" % len(usual), "ns", usual, 30)
    worst(ctx, "added to a call for a name that does not exist, the worst", "ns", {n: added[n] for n in MISSING}, 30)
    for name, ns in alone.items():
        ctx.row("of that, the system call that looks for a symlink", "ns", {"measured": added[name], "limit": ns},
                "measured", "limit", note=name.replace("_", " "))
    chosen = ("read", "fstat", "stat", "open_close", "stat_missing") if ctx.quick else added
    extra = extra_calls(ctx, env, chosen, directory)
    if not extra:
        ctx.skip("system calls", "strace is not installed")
    worst(ctx, "system calls added to a call", "calls", {n: c for n, c in extra.items() if n in usual}, 0)
    worst(ctx, "system calls added, name that does not exist", "calls", {n: c for n, c in extra.items() if n in MISSING}, 0)
