#!/bin/sh
# Build the engine and the modules with coverage for libFuzzer, ASan and UBSan into
# build/fuzz, and fuzz one target of tests/fuzz/targets.py for a time. The target `states` has
# servers in processes of their own, from GCC's sanitizers, and a generator in place of libFuzzer.
#
# Arguments: the folder of the virtual environment's programs, the target, seconds, then
# libFuzzer's own. The corpus that it grows is build/fuzz/TARGET, what it finds
# build/fuzz/TARGET-crash-…; the kept corpus is tests/fuzz/corpora/TARGET. To keep a
# smallest one: the target, 0, `-merge=1 tests/fuzz/corpora/TARGET.new`, then rename it.
set -eu

bin=$(CDPATH='' cd -- "$1" && pwd)
target=$2
seconds=$3
shift 3
[ "$target" != states ] || exec sh buildtools/sanitize.sh "$bin" --states --time "$seconds" "$@"
site=$PWD/build/fuzz/site
clang=${CLANG:-clang}
flags='-O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=function,alignment'
flags="$flags -fno-omit-frame-pointer"

fail() {
    echo "quiver-fast: $*" >&2
    exit 1
}

command -v "$clang" >/dev/null || fail "clang not found (Debian: clang libclang-rt-14-dev)"

echo "quiver-fast: building for the fuzzer (some minutes the first time)"
CC=$clang CFLAGS="${CFLAGS:-} $flags" LDFLAGS="${LDFLAGS:-} $flags" \
    "$bin/python" setup.py --quiet build --build-base build/fuzz --build-lib "$site"

# The driver has Python in it, and libFuzzer's main.
embed=$("$bin/python" -c 'import sysconfig as s
print("-I" + s.get_path("include"), "-L" + s.get_config_var("LIBDIR"),
      "-lpython" + s.get_config_var("LDVERSION"), "-Wl,-rpath," + s.get_config_var("LIBDIR"))')
# shellcheck disable=SC2086  # they are words
"$clang" -g -O1 -fsanitize=fuzzer,address,undefined -rdynamic -o build/fuzz/driver \
    tests/fuzz/driver.c $embed

# Imported modules are those of the instrumented build, all else is the virtual environment's.
packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "build/fuzz/$target"
PYTHONPATH=$site:$PWD:$PWD/tests:$packages PYTHONMALLOC=malloc QUIVER_FAST_FUZZ=$target \
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:suppressions=tests/fuzz/ubsan.supp \
    build/fuzz/driver -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 \
    -artifact_prefix="build/fuzz/$target-" "$@" "build/fuzz/$target" "tests/fuzz/corpora/$target"
