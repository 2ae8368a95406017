#!/bin/sh
# install.sh VENV SET... [-- WHAT...]: installs the pins of constraints.txt for these extras and groups of pyproject.toml into
# an environment, each checked by its hash, and then WHAT, such as this project, beside them.
# install.sh VENV --uv ARGUMENTS...: uv, told where pip finds packages, but no further places: they may lack files.
#
# By uv, which loads and unpacks several packages at once; by pip where uv cannot be had. uv reads nothing of what pip was
# told: where packages come from, and whose certificates hold, is handed on to it, unless it was told itself. Where none of
# those places has torch's builds for the CPU, uv is told to look where torch's own index is. Nothing is built in an
# environment of its own, since what came into that would not be pinned. Bytecode is made now, as pip does: processes that
# read documents may write none, nor may any where PYTHONDONTWRITEBYTECODE is set.
set -eu
venv=$1
shift

told() { "$venv/bin/pip" config list 2>/dev/null | sed -nE "s/^[^=]*\.$1='(.*)'\$/\1/p" | head -n 1 | sed 's/\\n/ /g'; }
hand_on() { [ -n "$(printenv "$1")" ] || [ -z "$2" ] || export "$1=$2"; }
by_pip() { "$venv/bin/pip" --quiet --disable-pip-version-check install --no-deps --no-build-isolation "$@"; }
by_uv() {
    hand_on UV_INDEX "$(told extra-index-url)"
    hand_on UV_FIND_LINKS "$(told find-links | tr ' ' ',')"
    uv pip install --quiet --compile-bytecode --python "$venv/bin/python" --no-deps --no-build-isolation "$@"
}
uv() {
    [ -x "$venv/bin/uv" ] || return
    hand_on UV_DEFAULT_INDEX "$(told index-url)"
    hand_on SSL_CERT_FILE "$(told cert)"
    hand_on UV_INDEX_STRATEGY unsafe-best-match # the best of all places, as pip takes it
    hand_on UV_HTTP_TIMEOUT 180
    hand_on UV_COMPILE_BYTECODE_TIMEOUT 600
    "$venv/bin/uv" "$@"
}

if [ "${1:-}" = --uv ]; then
    shift
    uv "$@"
    exit
fi
[ $# -gt 0 ] || { echo 'name an extra of pyproject.toml, such as dev' >&2; exit 2; }
pins=$(mktemp)
trap 'rm -f "$pins"' EXIT
"$venv/bin/python" constraints.py pins --only build >"$pins"
by_pip --require-hashes --requirement "$pins" || true

sets=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    sets="$sets $1"
    shift
done
[ $# -eq 0 ] || shift
"$venv/bin/python" constraints.py pins $sets >"$pins"
by_uv --require-hashes --requirement "$pins" || {
    echo 'once more, with torch from where its builds for the CPU are' >&2
    by_uv --torch-backend cpu --require-hashes --requirement "$pins"
} || {
    echo 'uv could not; once more with pip' >&2
    by_pip --require-hashes --requirement "$pins"
}
[ $# -eq 0 ] || by_uv "$@" || by_pip "$@"
