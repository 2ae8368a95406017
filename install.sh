#!/bin/sh
# install.sh VENV WHAT...: installs into an environment, at the versions of constraints.txt.
#
# By uv, which loads and unpacks several packages at once; by pip where uv cannot be had. uv reads nothing of what pip was
# told: where packages come from, and whose certificates hold, is handed on to it, unless it was told itself. Bytecode is
# made now, as pip does: processes that read documents may write none, nor may any where PYTHONDONTWRITEBYTECODE is set.
set -eu
venv=$1
shift

told() { "$venv/bin/pip" config list 2>/dev/null | sed -nE "s/^[^=]*\.$1='(.*)'\$/\1/p" | head -n 1 | sed 's/\\n/ /g'; }
hand_on() { [ -n "$(printenv "$1")" ] || [ -z "$2" ] || export "$1=$2"; }

"$venv/bin/pip" --quiet --disable-pip-version-check install --constraint constraints.txt uv || true
if [ -x "$venv/bin/uv" ]; then
    hand_on UV_DEFAULT_INDEX "$(told index-url)"
    hand_on UV_INDEX "$(told extra-index-url)"
    hand_on UV_FIND_LINKS "$(told find-links | tr ' ' ',')"
    hand_on SSL_CERT_FILE "$(told cert)"
    hand_on UV_INDEX_STRATEGY unsafe-best-match # the best of all places, as pip takes it
    hand_on UV_HTTP_TIMEOUT 180
    hand_on UV_COMPILE_BYTECODE_TIMEOUT 600
    "$venv/bin/uv" pip install --quiet --compile-bytecode --python "$venv/bin/python" --constraint constraints.txt "$@" &&
        exit
    echo 'uv could not; once more with pip' >&2
fi
"$venv/bin/pip" --quiet --disable-pip-version-check install --constraint constraints.txt "$@"
