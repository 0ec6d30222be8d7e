# SPDX-License-Identifier: BSD-3-Clause
"""What the suites of bench/run.py share (bench/README.md)."""
