# SPDX-License-Identifier: BSD-3-Clause
"""Python runs this module at the start of each program of `fs-launch --prefetch torch`, because PYTHONPATH begins with its
directory. It waits for torch's DataLoader to be imported (fanstore_torch.py), and runs the sitecustomize module that it
hides. Without torch it costs one comparison for each import."""
import sys

DATALOADER = "torch.utils.data.dataloader"


def run_hidden():
    """Imports the next sitecustomize on sys.path, as if this one were not there."""
    here = __file__.rpartition("/")[0]
    mine, path = sys.modules.pop(__name__), sys.path[:]
    sys.path[:] = [p for p in path if p != here]
    try:
        __import__(__name__)
    except ImportError as e:
        if e.name != __name__:
            raise
    finally:
        sys.path[:0] = [p for p in path if p == here]
        sys.modules.setdefault(__name__, mine)


class Finder:
    """Stands first in sys.meta_path until torch's DataLoader is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != DATALOADER:
            return None
        try:
            from importlib.machinery import PathFinder
            spec = PathFinder.find_spec(name, path, target)
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: self.exec_module(module, run)
            return spec
        except Exception:  # not there, or a loader that is not Python's: the next finder knows
            return None

    def exec_module(self, module, run):
        run(module)
        try:
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            import fanstore_torch
            fanstore_torch.install(module)
        except Exception as e:  # training goes on without prefetching
            try:
                print("fanstore: no prefetching: %r" % e, file=sys.stderr)
            except (OSError, ValueError):
                pass


sys.meta_path.insert(0, Finder())
run_hidden()
