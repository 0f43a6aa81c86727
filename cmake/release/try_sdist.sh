#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the sdist with the packages that apps/python/README.md names, prints the time of
# `pip install .`, and runs the tests of the Python package that the sdist contains.
#
# Runs in a bare root of Debian 12. Its folder /try has the sdist, and wheels of all that pip needs.

set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
TIMEFORMAT='%R s; processor time: %U s of users, %S s of the system'
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/try/wheels PIP_DISABLE_PIP_VERSION_CHECK=1
mkdir -p /tmp/sdist
tar -xzf /try/ringload-*.tar.gz -C /tmp/sdist --strip-components=1
cd /tmp/sdist
needed=$(tr '\n' ' ' <apps/python/README.md |
  sed 's/.*(Debian: `\([^`]*\)`).*(`\(libhdf5-dev [^`]*\)`).*/\1 \2/')
apt-get -qq update
# shellcheck disable=SC2086
apt-get -qq -y install --no-install-recommends $needed python3-venv >/dev/null
python3 -m venv /tmp/venv
PATH=/tmp/venv/bin:$PATH
echo "pip install ."
time pip -q install -v . >/tmp/pip.log 2>&1 || { tail -n 40 /tmp/pip.log; exit 1; }
(mkdir -p /tmp/run && cd /tmp/run && python /try/example.py /try/chunked.h5 >/dev/null)
pip -q install numpy ml_dtypes pytest mypy tqdm
echo "the tests of the Python package"
python -m pytest -q -p no:cacheprovider --basetemp=/tmp/tests tests/python | tail -n 20
pip -q uninstall -y ringload
