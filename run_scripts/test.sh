#!/usr/bin/env bash
# Sets up and checks the project: format, lint, all tests.
# Arguments go to pytest: run_scripts/test.sh -k encoder
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/set_up.sh"
cd "$repository"
ruff format --check .
ruff check .
mypy
python -m pytest "$@"
