# Sourced by quickstart.sh and test.sh: an environment with the project installed, and
# with what the script needs besides: $extra, of setup.py, "test" if it is not set.
# Uses the virtual environment that is active, else .venv in the checkout, made here.
# What is installed already for this setup.py is left as it is.

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

fail() {
  echo "ERROR: $*" >&2
  exit 1
}

find_python() {
  local name
  for name in python3.11 python3.12 python3.10 python3 python; do
    if "$name" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' \
        2>/dev/null; then
      echo "$name"
      return
    fi
  done
  fail "No Python 3.10, 3.11 or 3.12 on the PATH: install one."
}

if [ -z "${VIRTUAL_ENV:-}" ]; then
  environment="$repository/.venv"
  # What a failed or interrupted attempt left has no activate or no pip.
  if [ ! -f "$environment/bin/activate" ] || [ ! -x "$environment/bin/pip" ]; then
    python="$(find_python)" || exit 1
    echo "Making the virtual environment $environment with $python"
    "$python" -m venv --clear "$environment" ||
      fail "No virtual environment could be made: install Python's venv package" \
        "(python3-venv on Debian and Ubuntu)."
  fi
  # shellcheck disable=SC1091
  source "$environment/bin/activate"
fi

extra="${extra:-test}"
stamp="$VIRTUAL_ENV/albert-tf.installed"
wanted="$repository $(python -c 'import sys; print(sys.version_info[:2])') $(cksum <"$repository/setup.py")"
# What the tests need has all that the quick start needs.
if ! grep -qxF -e "$wanted $extra" -e "$wanted test" "$stamp" 2>/dev/null; then
  echo "Installing albert-tf and the libraries it needs (some minutes, once)"
  python -m pip install --quiet --progress-bar=off --editable "$repository[$extra]" &
  while kill -0 $! 2>/dev/null; do
    sleep 1
    if [ $((SECONDS % 20)) -eq 0 ]; then echo "Installing, $SECONDS seconds so far"; fi
  done
  wait $! || fail "The installation failed: see pip's message above."
  echo "$wanted $extra" >"$stamp"
fi
