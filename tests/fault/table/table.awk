# SPDX-License-Identifier: BSD-3-Clause
# The rows of the fault tests (harness.bash), under a header, in columns.
BEGIN {
  FS = "\t"
  columns = split("fault\ttries\terrors\tlongest stall, ms\tMiB checked\tend of the job\tleft", head)
  for (i = 1; i <= columns; i++) width[i] = length(head[i])
}
{
  for (i = 1; i <= columns; i++) {
    cell[NR, i] = $i
    if (length($i) > width[i]) width[i] = length($i)
  }
}
function line(i, text) { printf i == 1 ? "%-*s" : "  %*s", width[i], text; if (i == columns) print "" }
END {
  for (i = 1; i <= columns; i++) line(i, head[i])
  for (r = 1; r <= NR; r++) for (i = 1; i <= columns; i++) line(i, cell[r, i])
}
