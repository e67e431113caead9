#!/bin/sh
# Build the engine and the modules with AddressSanitizer and UBSan into build/sanitize,
# and run the tests that feed them what a hostile peer or a damaged file might. Or with
# ThreadSanitizer into build/sanitize-threads, and run those of memory that threads share. Or
# fuzz servers of the first build with tests/fuzz/states/run.py.
#
# Arguments: the folder of the virtual environment's programs, --threads or --states for the
# latter two, then pytest's own or those of run.py.
set -eu

bin=$(CDPATH='' cd -- "$1" && pwd)
shift
tests='tests/fuzz tests/unit/queuefile tests/unit/remote tests/functional/remote
    tests/functional/server tests/functional/test_arrow_sasl.py
    tests/functional/test_arrow_streaming.py tests/functional/test_arrow_streaming_peers.py
    tests/functional/test_reconnect.py tests/functional/test_reconnect_receivers.py
    tests/functional/test_reconnect_servers.py tests/functional/test_lost_streams.py
    tests/functional/test_request_reply.py tests/functional/test_replies_in_frames.py
    tests/unit/test_replies.py tests/unit/test_template.py'
base=build/sanitize
sanitizers=address,undefined
libraries='libasan.so libubsan.so libstdc++.so'
runner=
states=
if [ "${1:-}" = --states ]; then
    shift
    states=yes
elif [ "${1:-}" = --threads ]; then
    shift
    tests='tests/functional/server/test_creation.py tests/functional/server/test_group_commit.py
        tests/functional/server/test_subscriptions.py
        tests/functional/server/test_subscription_files.py
        tests/functional/server/test_server_metrics.py
        tests/unit/queuefile/test_durability.py tests/unit/queuefile/test_mappings.py'
    base=build/sanitize-threads
    sanitizers=thread
    libraries='libtsan.so libstdc++.so'
    # It needs addresses that are not too random.
    runner='setarch -R'
fi
# Builds count what the server makes and frees.
flags="-O1 -fsanitize=$sanitizers -fno-omit-frame-pointer -DQUIVER_FAST_BALANCE"
site=$PWD/$base/site

fail() {
    echo "quiver-fast: $*" >&2
    exit 1
}

# The sanitizers must be the first libraries of a process: Python itself has none. With
# them comes libstdc++, whose exceptions they must see before a C++ module is loaded.
preload=
for library in $libraries; do
    path=$(${CC:-cc} -print-file-name="$library")
    [ "$path" != "$library" ] || fail "$library not found: sanitizing needs GCC with its libraries"
    preload="$preload $path"
done

echo "quiver-fast: building with sanitizers (about two minutes)"
CFLAGS="${CFLAGS:-} $flags" LDFLAGS="${LDFLAGS:-} $flags" \
    "$bin/python" setup.py --quiet build --build-base "$base" --build-lib "$site"
grep -q '__[at]san_init' "$site"/quiver_fast/amqp/libquiver-amqp.so || fail "not sanitized: $site"

ubsan=print_stacktrace=1:halt_on_error=1:suppressions=$PWD/tests/fuzz/ubsan.supp
lsan=suppressions=$PWD/buildtools/leaks.supp:print_suppressions=0

# Only the servers are sanitized: the fuzzer would be slower.
[ -z "$states" ] || exec "$bin/python" tests/fuzz/states/run.py "$@" \
    "LD_PRELOAD=$preload" "PYTHONPATH=$site" PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=1 "UBSAN_OPTIONS=$ubsan" "LSAN_OPTIONS=$lsan"

# Left out is what measures: most of the memory and the time would be the sanitizer's.
# Leaks are looked for in servers only (tests/support/server.py): the other processes are
# others' programs, and the tests themselves. malloc, because Python's own allocator hides where an object ends.
# ThreadSanitizer ends a process at the first race.
# shellcheck disable=SC2086  # the tests and the runner are words
LD_PRELOAD=$preload PYTHONPATH=$site PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS="$ubsan" \
    QUIVER_FAST_LEAKS=detect_leaks=1 \
    TSAN_OPTIONS=history_size=4:halt_on_error=1 \
    LSAN_OPTIONS="$lsan" \
    $runner "$bin/python" -m pytest $tests \
    -m 'not measured' \
    "$@"
