#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Shows what flushlight says, on this machine, in a few minutes: builds it, starts a private MariaDB and a private
# PostgreSQL, each on a slow device, loads both, holds each cache flush for 40 ms, and asks in SQL what happened.
#
#   ./demo.sh [--flush-ms 40] [--seconds 6]
#
# Needs root on Debian 12. Leaves nothing behind but build/: no process, mount, loop device or service; servers of
# this machine are not touched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

case ${1:-} in
  -h | --help) sed -n '3,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
if [ "$(id -u)" -ne 0 ]; then
  echo "demo: run it as root (it makes a slow block device and loads BPF programs)" >&2
  exit 1
fi

started=$SECONDS
say() { printf 'demo %3d s  %s\n' $((SECONDS - started)) "$*"; }
quietly() {
  local log=build/logs/$1.log
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log"
    say "failed: $* (all of it in $log)"
    exit 1
  fi
}

mkdir -p build/logs
say "packages"
tools/install-deps
say "database servers, unpacked below build/engines"
tools/fetch-engines --engine mariadb
tools/fetch-engines --engine postgresql15
say "build"
quietly configure-release cmake --preset release
quietly build-release cmake --build --preset release
export FLUSHLIGHT_BUILD_DIR=$PWD/build/release FLUSHLIGHT_ENGINES_DIR=$PWD/build/engines
exec python3 tools/demo.py --already "$((SECONDS - started))" "$@"
