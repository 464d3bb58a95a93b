#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Everything that tests, from a fresh clone on Debian 12: installs packages, unpacks the engines, builds, tests.
#
#   ./test.sh             all tests but the labels long, bench, vm, tidy
#   ./test.sh --quick     label unit only, without engines and sanitizers
#   ./test.sh --label L   tests with a label that matches L
#   ./test.sh --all       long, bench and vm too
#
# Root is needed for the labels kernel and rig. What a killed run left behind is cleaned first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

outside_default='^(long|bench|vm|tidy)$'
what=default
label=
while [ $# -gt 0 ]; do
  case $1 in
    --quick) what=quick ;;
    --label) what=label; label=${2:?--label needs a label}; shift ;;
    --all) what=all ;;
    -h | --help) sed -n '3,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: unknown argument $1 (see --help)" >&2; exit 2 ;;
  esac
  shift
done

started=$SECONDS
say() { printf '== %3d s  %s\n' $((SECONDS - started)) "$*"; }

# Output of a long step goes to a file; its end is shown when the step fails.
quietly() {
  local log=build/logs/$1.log
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log"
    say "failed: $* (all of it in $log)"
    exit 1
  fi
}

# Devices, servers and mounts of a run that was killed (each folder below the run folder is one device's).
clean_rig() {
  [ -x "$FLUSHLIGHT_BUILD_DIR/tests/rig/slowctl" ] || return 0
  PYTHONPATH=tests/rig python3 -c '
import sys
from device import clean
from locations import run_folder, tools_folder
left = [clean(f, tools_folder() / "slowctl") for f in run_folder().iterdir() if f.is_dir()]
sys.exit(f"left behind by an earlier run: {left}" if any(left) else 0)'
}

export FLUSHLIGHT_BUILD_DIR=$PWD/build/release FLUSHLIGHT_ENGINES_DIR=$PWD/build/engines
mkdir -p build/logs
say "packages"
tools/install-deps

if [ "$(id -u)" -eq 0 ]; then
  clean_rig
  trap clean_rig EXIT
fi

if [ $what != quick ]; then
  say "engines (build/engines)"
  tools/fetch-engines
fi

say "build (release)"
quietly configure-release cmake --preset release
quietly build-release cmake --build --preset release

if [ $what = default ] || [ $what = all ]; then
  # No plugin and no extension: servers without the sanitizer could not load them.
  say "build (asan: unit tests)"
  quietly configure-asan cmake --preset asan -DFLUSHLIGHT_ENGINES_DIR="$PWD/build/no-engines"
  quietly build-asan cmake --build build/asan --target tests/unit/all
  say "unit tests under AddressSanitizer and UndefinedBehaviorSanitizer"
  ctest --test-dir build/asan --output-on-failure -L '^unit$' -E '^lint[.]'
fi

say "tests"
case $what in
  quick) select=(-L '^unit$') ;;
  label) select=(-L "$label") ;;
  all) select=(-LE '^tidy$') ;;
  *) select=(-LE "$outside_default") ;;
esac
# One at a time: rig tests measure time. A test may be disturbed by the machine (docs/decisions/0007): it gets three tries,
# and ctest shows each. The summary stays the last thing printed.
status=0
ctest --test-dir build/release --output-on-failure --no-tests=error --repeat until-pass:3 "${select[@]}" || status=$?
exit $status
