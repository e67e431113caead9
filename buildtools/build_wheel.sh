#!/bin/sh
# Build dist/*.whl with the pip of a virtual environment, and tell each ten seconds how far it is:
# a build from nothing takes minutes, and pip says nothing before its end.
#
# usage: build_wheel.sh BIN
set -eu

bin=$1
seconds=10
begun=build/begun
# And Cython's own functions.
modules=$(($(find src -name '*.pyx' | wc -l) + 1))

made() {
    find build -name "$1" -path "build/$2/*" -newer "$begun" | wc -l
}

tell() {
    # A pipe's reader does not wait for the last sleep.
    while sleep "$seconds" >/dev/null 2>&1; do
        echo "quiver-fast: of $modules modules $(made '*.c' 'cython-*') are translated," \
            "$(made '*.cpython-*.so' 'lib.*') are compiled"
    done
}

touch "$begun"
tell &
teller=$!
trap 'kill "$teller" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM HUP
"$bin/python" -m pip --quiet --no-input wheel --no-deps --no-build-isolation --wheel-dir dist .
