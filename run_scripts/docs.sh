#!/usr/bin/env bash
# Sets up and builds the documentation site into build/docs; warnings are errors.
# Arguments go to mkdocs: run_scripts/docs.sh --site-dir=elsewhere
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/set_up.sh"
cd "$repository"

# Apart from the environment's own stamp: most who use it build no site.
stamp="$VIRTUAL_ENV/albert-tf-docs.installed"
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  echo "Installing the documentation tools (once)"
  python -m pip install --quiet --editable "$repository[docs]" ||
    fail "The installation failed: see pip's message above."
  echo "$wanted" >"$stamp"
fi

python -m mkdocs build --strict "$@"
