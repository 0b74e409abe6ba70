#!/usr/bin/env bash
# Sets up and checks the project: format, lint, types, all tests in two processes.
# Arguments go to pytest: run_scripts/test.sh -k encoder
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/set_up.sh"
cd "$repository"
ruff format --check .
ruff check .
mypy
# A module stays in one process, so that its tests share what they trained. TensorFlow
# keeps memory for each model that was trained in a process, several gigabytes in the
# end: the packages of tests that train most have processes of their own.
run() {
  python -m pytest --numprocesses=2 --dist=loadscope "$@"
}
if [[ $# -gt 0 && $1 != --durations=* ]]; then
  run "$@"
  exit
fi
status=0
run "$@" --ignore=tests/training --ignore=tests/run_scripts tests || status=$?
run "$@" tests/training || status=$?
run "$@" tests/run_scripts || status=$?
exit "$status"
