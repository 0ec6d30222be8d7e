# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# For tests of fs-launch jobs, stats and top: jobs that are processes of tests/setup/live.py, with known rates.
jobs_base=$TMPDIR/fanstore-$(id -u)
job_pids=()
begin_job() { # NAME [KEY=VALUE...]
  local name=$1
  shift
  "$python" "$root/tests/setup/live.py" "$jobs_base/$name" "$@" &
  job_pids+=($!)
  wait_until 30 test -e "$jobs_base/$name/live"
}
end_job() { # NUMBER: the last one begun is -1
  kill "${job_pids[$1]}"
  wait "${job_pids[$1]}" || true
  unset "job_pids[$1]"
}
end_jobs() {
  [ ${#job_pids[@]} = 0 ] || kill "${job_pids[@]}" 2>/dev/null || true
  wait
}
trap 'end_jobs; rm -rf "${own_directory-}"' EXIT
