#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 60
# timeout: 1500
# The Ansible role, by the playbooks of docs/install.md: it installs the package in a copy of a
# Debian that has no MPI, so that all that the package needs comes with it, and from a source tree
# in a copy of this system. Each runs its small job. A second run of the first changes nothing.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/functions.bash"
need_systems
. /etc/os-release
[ "${VERSION_CODENAME-}" = bookworm ] || skip "the package is for Debian 12 if it is built there"
need_command ansible-playbook
package=$(the_deb)
debian=$(system_root bookworm ansible-core environment-modules man-db)
[ ! -e "$debian/usr/bin/mpirun" ] || fail "$debian has an MPI"

playbook() { # FILE VARIABLES
  cat >"$1" <<END
- hosts: localhost
  connection: local
  gather_facts: false
  roles:
    - role: fanstore
$2
END
}
cat >"$work/inside.sh" <<'END'
set -euo pipefail
roles=$1 work=$2 local=$3
shift 3
export ANSIBLE_ROLES_PATH=$roles ANSIBLE_NOCOLOR=1 ANSIBLE_LOCALHOST_WARNING=false HOME=~root
mkdir -p /etc/slurm
for run; do
  ansible-playbook -i localhost, -v "$work/play.yml" >"$work/$run"
done
fs-launch --version >"$work/version"
[ "$(stat -c %a "$local")" = 1777 ]
# The prolog makes the user's directory.
cd /
SLURM_JOB_USER=nobody SLURM_JOB_ID=1 /etc/slurm/fanstore-prolog
SLURM_JOB_USER=nobody SLURM_JOB_ID=1 /etc/slurm/fanstore-epilog
[ "$(stat -c '%a %U' "$local/nobody")" = "700 nobody" ]
END
one() { # NAME ROOT VARIABLES RUN...
  local name=$1 system=$2 variables=$3 run
  shift 3
  playbook "$work/play.yml" "$variables
      fanstore_local_dir: /nvme
      fanstore_slurm_dir: /etc/slurm"
  in_copy "$system" bash "$work/inside.sh" "$root/docs/deploy/ansible/roles" "$work" /nvme \
    "$@" >"$work/log" 2>&1 || {
    cut -c 1-300 "${@/#/$work/}" "$work/log"
    fail "$name"
  }
  equal "$name: version" "$("$bin/fs-launch" --version)" "$(cat "$work/version")"
  for run; do
    grep -q 'FanStore works: fs-launch (FanStore)' "$work/$run" || fail "$name: no job: $(cut -c 1-300 "$work/$run")"
  done
  echo "ok - $name"
}
one "the package on a Debian without MPI" "$debian" "      fanstore_deb: $package" first second
grep -q "changed=0 .*failed=0" "$work/second" || fail "not the same: $(cut -c 1-300 "$work/second")"
one "a source tree" / "      fanstore_source: $root" first
