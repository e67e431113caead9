#!/bin/sh
# Tell which lines of Python and of Cython the tests run.
#
#     sh buildtools/coverage.sh PYTHON TEST...
#
# The modules are compiled once more, without optimization, into build/coverage. gcov counts in
# them without the interpreter, so nothing waits for its lock, and servers keep their time-outs.
# A process that is killed leaves no counts.
set -eu
case $1 in
    /*) python=$1 ;;
    *) python=$PWD/$1 ;;
esac
shift
root=$PWD
place=$root/build/coverage
mkdir -p "$place"
find "$place" -name '*.gcda' -delete
rm -f "$place"/data*
QUIVER_FAST_COVERAGE=1 "$python" setup.py --quiet \
    build --build-base "$place" --build-lib "$place/lib"
PYTHONPATH=$place/lib
COVERAGE_FILE=$place/data
export PYTHONPATH COVERAGE_FILE
failed=0
"$python" -m coverage run -m pytest -m 'not slow and not measured' "$@" || failed=$?
"$python" -m coverage combine --quiet
"$python" -m coverage report >"$place/python.txt" || true
sed -n 's/^TOTAL/Python:/p' "$place/python.txt"
# Cython names lines by paths from src on. All of its functions begin with __pyx, and gcovr
# leaves out functions that begin with two underscores unless told otherwise.
(cd src && "$python" -m gcovr --root . --filter 'quiver_fast/.*\.(pyx|pxi|pxd|h)' \
    --include-internal-functions \
    --gcov-ignore-errors all --gcov-ignore-parse-errors all \
    --print-summary --output "$place/cython.txt" "$place" \
    >"$place/summary.txt" 2>"$place/gcovr.txt")
sed -n 's/^lines/Cython: lines/p' "$place/summary.txt"
echo "by file: $place/python.txt $place/cython.txt"
exit "$failed"
