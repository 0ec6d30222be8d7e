# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Bash completion for fs-launch and fs-prepare: the options that --help lists, the commands, and file names. make install puts it
# where bash-completion looks for it.
_fanstore_options() { # COMMAND...: what its --help lists
  "$@" --help 2>/dev/null </dev/null | grep -oE -- '(^|[ ,])--[a-z][a-z-]*' | tr -d ' ,' | sort -u
}
_fanstore() {
  local program=$1 word=${COMP_WORDS[COMP_CWORD]} command='' words i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) return 124 ;; # COMMAND's own words: bash's usual completion
      -*) ;;
      *) command=${command:-${COMP_WORDS[i]}} ;;
    esac
  done
  case ${program##*/}:$command in
    fs-prepare:) words='pack place verify info list diff unpack' ;;
    fs-launch:) words='attach clean doctor env jobs replay stats stop top' ;;
    fs-launch:attach | fs-launch:env | fs-launch:stats | fs-launch:stop | fs-launch:top)
      words=$("$program" jobs 2>/dev/null | awk 'NR > 1 { print $1 }')
      ;;
  esac
  case $word in
    -*)
      case $command in
        pack | place | verify | info | list | diff | unpack | attach | clean | env | jobs | replay | stats | stop | top) ;;
        *) command='' ;;
      esac
      # shellcheck disable=SC2086 # no command is no word
      words=$(_fanstore_options "$program" $command)
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _fanstore fs-launch fs-prepare
