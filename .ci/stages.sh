# shellcheck shell=bash
# What the runs of CI share: stages, each with its time, and the sum of all tests. Sourced.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

# A build without TLS, or a peer that is not there, is a failure here.
export QUIVER_FAST_TLS=1 QUIVER_FAST_REQUIRE_PEERS=1
# More failures than these are not chance.
most_unsteady=5
scratch=$(mktemp -d)
log=$scratch/log
declare -A jobs_beside=()
trap 'end' EXIT

# Whatever the end: what all tests came to, and nothing that goes on.
end() {
    for job in "${jobs_beside[@]}"; do
        kill -- "-$job" 2>/dev/null || true
    done
    sum_up
    rm -rf "$scratch"
}

# Add up what pytest said at the end of each of its runs. Failures that `steady` ran once more
# are counted there.
sum_up() {
    awk '/^==== once more:/ { failed -= last }
    /^UNSTEADY / { unsteady++ }
    /^=+ .*(passed|failed|errors?).* in [0-9.]+s.* =+$/ {
        last = 0
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^passed/) passed += $(i - 1)
            if ($i ~ /^(failed|errors?)/) last += $(i - 1)
        }
        failed += last
    }
    END { printf "unsteady: %d\n%d passed, %d failed\n", unsteady, passed, failed }' "$log"
}

stage() {
    local name=$1 start=$SECONDS
    shift
    echo "==== $name: $*"
    "$@" 2>&1 | tee -a "$log" || {
        echo "==== $name: FAILED after $((SECONDS - start)) s" >&2
        exit 1
    }
    echo "==== $name: passed in $((SECONDS - start)) s"
}

# Make the target $1, which runs tests in parallel. A few that fail are run once more, alone and
# in one process: those that pass then are named as unsteady.
steady() {
    local failed=.pytest_cache/v/cache/lastfailed
    rm -f "$failed"
    make "$1" && return
    [ -s "$failed" ] || return 1
    .venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$failed" >"$scratch/failed"
    if [ "$(wc -l <"$scratch/failed")" -gt $most_unsteady ]; then
        echo "more than $most_unsteady tests failed" >&2
        return 1
    fi
    echo "==== once more: $(wc -l <"$scratch/failed") failed"
    make "$1" IN_PARALLEL= PYTEST_ARGS="--last-failed --last-failed-no-failures none" || return 1
    sed 's/^/UNSTEADY /' "$scratch/failed"
}

# Start a stage that runs beside the next ones; `join` shows it.
beside() {
    local name=$1
    # With a process group of its own, which `end` can stop as a whole.
    set -m
    (
        start=$SECONDS code=0
        "${@:2}" >"$log.$name" 2>&1 || code=$?
        echo $((SECONDS - start)) >"$log.$name.seconds"
        exit $code
    ) &
    jobs_beside[$name]=$!
    set +m
}

# Wait for the stages that were started beside others.
join() {
    local name code
    for name; do
        echo "==== $name, beside the stages above:"
        code=0
        wait "${jobs_beside[$name]}" || code=$?
        unset "jobs_beside[$name]"
        tee -a "$log" <"$log.$name"
        if [ $code != 0 ]; then
            echo "==== $name: FAILED" >&2
            exit 1
        fi
        echo "==== $name: passed in $(cat "$log.$name.seconds") s"
    done
}

# The program of $1 is in the package of the same name.
install_program() {
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "quiver-fast: missing: $1" >&2
        return 1
    fi
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y -o DPkg::Lock::Timeout=600 "$1"
}
