#!/usr/bin/env bash
# Installs Agent Resolver, as it is in this checkout, into an environment that no other step of the job sees.
set -euo pipefail

# The folder of the job may hold a stranger's `pip.py`: neither the current folder nor `-I` lets Python find it.
cd "$GITHUB_ACTION_PATH"
environment="$RUNNER_TEMP/agent-resolver"

# Where pip finds packages is the machine's business; where it puts them, and which, is ours.
unset PIP_CONSTRAINT PIP_DRY_RUN PIP_EDITABLE PIP_NO_DEPS PIP_PREFIX PIP_PYTHON PIP_REQUIREMENT PIP_REQUIRE_HASHES \
  PIP_ROOT PIP_TARGET PIP_USER PYTHONHOME PYTHONPATH

install() {
  python3 -I -m pip --python "$environment/bin/python" --disable-pip-version-check --quiet install --no-deps "$@"
}

# A second use in the same job finds what the first one made.
if [[ -f $environment/.made-from && $(< "$environment/.made-from") == "$GITHUB_ACTION_PATH" ]]; then
  exit 0
fi
python3 -I -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' || {
  echo '::error::Agent Resolver needs Python 3.11 or newer with pip: put `actions/setup-python` before this step'
  exit 1
}
python3 -I -m venv --clear --without-pip "$environment"
install --require-hashes -r requirements/base.txt -r requirements/build.txt
install --no-build-isolation .
printf '%s\n' "$GITHUB_ACTION_PATH" > "$environment/.made-from"
