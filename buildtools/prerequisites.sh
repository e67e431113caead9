#!/bin/sh
# Check that this machine can build quiver-fast with the Python named by $1.
#
# Where something is missing: root on a Debian-like system installs it; any
# other user gets the one line to type, and exit code 1.
set -eu

python=${1:?usage: prerequisites.sh PYTHON}
packages=
wanted=

fail() {
    echo "quiver-fast: $*" >&2
    exit 1
}

# need WHAT DEBIAN_PACKAGE: note that WHAT is missing, and which package has it.
need() {
    wanted="${wanted:+$wanted, }$1"
    packages="$packages $2"
}

# shellcheck disable=SC2046  # they are words
compiles() {
    printf '%s\nint main(void) { return 0; }\n' "$1" |
        ${CC:-cc} $(${PKG_CONFIG:-pkg-config} --cflags openssl 2>/dev/null) \
            -x c -fsyntax-only - >/dev/null 2>&1
}

# Only a Python from /usr has its headers and modules in Debian packages.
from_system() {
    case $("$python" -c 'import sys; print(sys.base_prefix)') in
        /usr) ;;
        *) fail "$python has no $1: reinstall it with them, or choose another with PYTHON=…" ;;
    esac
}

check_python() {
    if ! command -v "$python" >/dev/null 2>&1; then
        [ "$python" = python3 ] || fail "$python: not found; choose another with PYTHON=…"
        need python3 "python3 python3-dev python3-venv"
        return
    fi
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') ||
        fail "$python does not run"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        fail "$python is Python $version, at least 3.10 is needed; choose another with PYTHON=…"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        from_system "venv module"
        need "the venv module" "python$version-venv"
    fi
    if ! "$python" -c 'import os, sysconfig as s, sys
sys.exit(not os.path.exists(os.path.join(s.get_path("include"), "Python.h")))'; then
        from_system "C headers"
        need "Python's C headers" "python$version-dev"
    fi
}

check_compiler() {
    compiles '#include <stdlib.h>' || need "a C compiler" "gcc libc6-dev"
}

check_openssl() {
    # QUIVER_FAST_TLS=0 is the user's word that a build without TLS will do.
    [ "${QUIVER_FAST_TLS:-1}" = 1 ] || return 0
    compiles '#include <openssl/ssl.h>' || need "OpenSSL's headers" "libssl-dev pkg-config"
}

install_packages() {
    echo "quiver-fast: installing $wanted:$packages"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # one word per package
    if ! { apt-get update -q && apt-get install -q -y $packages; } </dev/null; then
        fail "apt-get could not install:$packages"
    fi
}

check_all() {
    packages=
    wanted=
    check_python
    check_compiler
    check_openssl
}

check_all
[ -n "$packages" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    fail "missing: $wanted (Debian's names:$packages)"
fi
if [ "$(id -u)" != 0 ]; then
    fail "missing: $wanted; type: sudo apt-get install -y$packages"
fi
install_packages
check_all
[ -z "$packages" ] || fail "still missing after the installation: $wanted"
