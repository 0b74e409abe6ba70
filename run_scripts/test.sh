#!/usr/bin/env bash
# Sets up and checks the project: format, lint, types, all tests in two processes.
# Arguments go to pytest: run_scripts/test.sh -k encoder
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/set_up.sh"
cd "$repository"
ruff format --check .
ruff check .
mypy
# A module stays in one process, so that its tests share what they trained.
python -m pytest --numprocesses=2 --dist=loadscope "$@"
