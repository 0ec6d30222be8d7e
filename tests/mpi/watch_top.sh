#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# fs-launch stats fits 80 columns. fs-launch top in tmux: what the screen shows at 80x24 and at 200x50, keys, a change of size, and a terminal that is as
# before when it ends by q, by a signal, and with the job.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/watch.bash"
need_command tmux
tm() { tmux -S "$work/tmux" -f /dev/null "$@"; }
trap 'tm kill-server 2>/dev/null || true; end_jobs; rm -rf "${own_directory-}"' EXIT
shows() { tm capture-pane -p >"$work/screen" && grep -qE -- "$1" "$work/screen"; } # PATTERN
await() { # PATTERN
  local end=$((SECONDS + 40))
  until shows "$1"; do
    [ $SECONDS -lt $end ] || fail "not on the screen: $1
$(cat "$work/screen")"
    sleep 0.1
  done
}
top_then() { # WORD: runs top in the terminal, then prints WORD, its status, and whether the terminal is as before
  tm send-keys "clear; b=\$(stty -g); $bin/fs-launch top; s=\$?; [ \$(stty -g) = \"\$b\" ] && echo $1=\$s" Enter
}

begin_job job-top-1 nodes=40 busy='/data/a very long directory of names/train/n01440764/photo.jpg' warning='node 3 is slow' command='python3 train.py'
tm new-session -d -x 80 -y 24 'bash --norc'
await '\$|#'
tm send-keys "clear; $bin/fs-launch stats --count 1" Enter
await '^TIME +FILES/S +MB/S  LOCAL% CACHE% REMOTE% SHARED%  WAIT%    P50    P99$'
await '^[0-9:]{8} +[0-9.k]+ +[0-9]+ +50 +30 +15 +5 +(9|10)  +37us  1.2ms$'
top_then by_q
await '^job-top-1 +running [0-9:]+ +40 nodes'
await '^(8[0-9]{4}) files/s +[34][0-9]{3} MB/s: 50% local 30% cache 15% remote 5% shared +waited (9|10)%$'
await '^remote reads: P50 37us +P99 1.2ms +outputs: [78][0-9]/s +[0-9]+ MB/s +worst waited 109%$'
await '^warning: node 3 is slow'
await '^NODE HOST +FILES/S +MB/S +LOCAL CACHE REMOTE SHARED HIT% WAIT% +P99$'
await '^ +1 node1 +(19|20)[0-9] +(9[89]|10[01]) +[345][0-9.]+ .* 60 +(9|10) 1\.2ms$'
await '^by n  q quit .* r reverse *$'
shows '^ +17 ' && fail 'more rows than fit'
tm send-keys f
await '^by f  q'
equal 'first by files' 39 "$(awk '/^NODE/ { getline; print $1 }' "$work/screen")"
tm send-keys r
await '^by f, reversed  q quit .* r reverse$'
equal 'first by files, reversed' 0 "$(awk '/^NODE/ { getline; print $1 }' "$work/screen")"
tm send-keys n r PageDown
await '^ +33 node33 '
tm send-keys End
await '^ +39 node39 '
tm send-keys Right Right Right Right Right
await '^NODE HOST +SHARED HIT% .* QUEUE'
tm send-keys Home
await '^ +0 node0 '
tm resize-window -x 200 -y 50
await '^NODE HOST .* P99 +WORST%.* BUSY% +CACHED +OF +QUEUE +OUTPUTS$'
await '^ +READS +WAITED +LONGEST +PLACE +BUSIEST FILES *$'
await '^ +70 +350ms +12ms +remote +/data/a very long directory of names/train/n01440764/photo.jpg$'
await '^ +39 node39 .* 99 +512M +1\.0G +42 '
tm resize-window -x 20 -y 5
await '^job-top-1'
tm resize-window -x 80 -y 24
await '^ +16 node16 '
tm send-keys q
await '^by_q=0$'
top_then by_signal
await '^NODE HOST'
tm send-keys C-c
tm send-keys Enter "echo after" Enter
await '^after$'
top_then by_end
await '^NODE HOST'
end_job 0
await '^fs-launch: job-top-1 has ended$'
await '^by_end=0$'

begin_job job-top-2 state=staging nodes=1
top_then staging
await '^staging \[#####\.{15}\] 25%: 3\.0 GiB of 12\.0 GiB'
tm send-keys q
await '^staging=0$'
expect_status 1 "$bin/fs-launch" top </dev/null
one_line "$work/err" 'must be a terminal'
tm send-keys "clear; TERM=none-such $bin/fs-launch top" Enter
await "terminals of type 'none-such' are not known"
echo "ok - the screen shows the nodes, and the terminal is given back"
