#!/bin/sh
# Build the engine and the modules with AddressSanitizer and UBSan into build/sanitize,
# and run the tests that feed them what a hostile peer or a damaged file might.
#
# Arguments: the folder of the virtual environment's programs, --short for what CI has time
# for, then pytest's own.
set -eu

bin=$(CDPATH='' cd -- "$1" && pwd)
shift
tests='tests/fuzz tests/unit/queuefile tests/unit/remote tests/functional/remote
    tests/functional/server tests/functional/test_arrow_sasl.py
    tests/functional/test_arrow_streaming.py tests/functional/test_arrow_streaming_peers.py'
if [ "${1:-}" = --short ]; then
    shift
    tests='tests/fuzz/test_corpora.py tests/fuzz/test_server_fuzz.py
        tests/functional/server/test_queues.py tests/functional/server/test_transactions.py
        tests/functional/server/test_torn_transactions.py
        tests/functional/server/test_streaming_ends.py'
fi
# Builds count what the server makes and frees.
flags='-O1 -fsanitize=address,undefined -fno-omit-frame-pointer -DQUIVER_FAST_BALANCE'
site=$PWD/build/sanitize/site

fail() {
    echo "quiver-fast: $*" >&2
    exit 1
}

# The sanitizers must be the first libraries of a process: Python itself has none. With
# them comes libstdc++, whose exceptions they must see before a C++ module is loaded.
preload=
for library in libasan.so libubsan.so libstdc++.so; do
    path=$(${CC:-cc} -print-file-name=$library)
    [ "$path" != $library ] || fail "$library not found: sanitizing needs GCC with its libraries"
    preload="$preload $path"
done

echo "quiver-fast: building with sanitizers (about two minutes)"
CFLAGS="${CFLAGS:-} $flags" LDFLAGS="${LDFLAGS:-} $flags" QUIVER_FAST_PGO=0 \
    "$bin/python" setup.py --quiet build --build-base build/sanitize --build-lib "$site"
grep -q __asan_init "$site"/quiver_fast/proton/libquiver-proton.so || fail "not sanitized: $site"

# Left out is what judges a process's memory, most of which would be the sanitizer's.
# Leaks are looked for in servers only (tests/support/server.py): the other processes are
# others' programs, and the tests themselves. malloc, because Python's own allocator hides where an object ends.
# shellcheck disable=SC2086  # the tests are words
LD_PRELOAD=$preload PYTHONPATH=$site PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:suppressions=$PWD/tests/fuzz/ubsan.supp \
    QUIVER_FAST_LEAKS=detect_leaks=1 \
    LSAN_OPTIONS=suppressions=$PWD/buildtools/leaks.supp:print_suppressions=0 \
    "$bin/python" -m pytest $tests \
    -m 'not memory' \
    "$@"
