#!/bin/sh
# Install dist/*.whl under PREFIX, or with --remove take it away again.
#
# The package and its dependencies get a virtual environment of their own in
# PREFIX/lib/quiver-fast, and PREFIX/bin gets links to its commands. `pip
# --prefix` would share one site-packages with the system's own modules, which
# distributions forbid (PEP 668), and could not be removed again as a whole.
set -eu

prefix=${PREFIX:?}
home=$prefix/lib/quiver-fast
impls=${QUIVER_HOME:+$QUIVER_HOME/impls}

fail() {
    echo "quiver-fast: $*" >&2
    exit 1
}

ours() {
    case $(readlink "$1") in
        "$home"/*) return 0 ;;
        *) return 1 ;;
    esac
}

remove() {
    for link in "$prefix"/bin/quiver* "$prefix"/share/man/man1/quiver* \
        "$prefix"/share/bash-completion/completions/quiver* \
        "$prefix"/share/zsh/site-functions/_quiver* \
        "$prefix"/share/fish/vendor_completions.d/quiver*; do
        if [ -L "$link" ] && ours "$link"; then rm "$link"; fi
    done
    rm -rf "$home"
    if [ -n "$impls" ]; then
        rm -f "$impls/quiver-arrow-pyfast" "$impls/quiver-server-pyfast-server"
    fi
    echo "quiver-fast: removed from $prefix${impls:+ and $impls}"
}

# Refuse before anything is touched.
check() {
    case $prefix in
        /*) ;;
        *) fail "PREFIX=$prefix: must be an absolute path" ;;
    esac
    if [ -n "$impls" ] && [ ! -d "$impls" ]; then
        fail "QUIVER_HOME=$QUIVER_HOME: has no folder impls"
    fi
    for name in quiver quiver-arrow quiver-bench quiver-server; do
        link=$prefix/bin/$name
        if [ -L "$link" ] && ours "$link"; then continue; fi
        if [ -e "$link" ]; then
            fail "$link is not ours (upstream's quiver?); choose another PREFIX"
        fi
    done
    mkdir -p "$prefix/bin" "$prefix/lib" || fail "PREFIX=$prefix: cannot write there"
}

install_wheel() {
    # All downloads come first: a failure leaves an earlier installation whole.
    rm -rf build/install
    .venv/bin/python -m pip --quiet wheel --wheel-dir build/install dist/*.whl
    "$PYTHON" -m venv --clear "$home"
    "$home/bin/python" -m pip --quiet install --no-index --find-links build/install dist/*.whl
    for command in "$home"/bin/quiver*; do
        ln -sf "$command" "$prefix/bin/${command##*/}"
    done
    link_share
    echo "quiver-fast: installed in $prefix/bin"
}

# Manual pages and completions, where man and the shells look below the prefix.
link_share() {
    (cd "$home/share" && find . -name '*quiver*' -type f) | while read -r file; do
        mkdir -p "$prefix/share/${file%/*}"
        ln -sf "$home/share/${file#./}" "$prefix/share/${file#./}"
    done
}

# The scripts start with the path of the private Python: they work from anywhere. Upstream's
# table has one entry per name, for arrows and servers alike: the server has a name of its own.
install_impls() {
    install -m 755 "$home/bin/quiver-arrow-pyfast" "$impls/quiver-arrow-pyfast"
    install -m 755 "$home/bin/quiver-server-pyfast" "$impls/quiver-server-pyfast-server"
    echo "quiver-fast: installed in $impls"
}

if [ "${1:-}" = --remove ]; then
    remove
    exit
fi
check
install_wheel
if [ -n "$impls" ]; then install_impls; fi
