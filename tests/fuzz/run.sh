#!/usr/bin/env bash
# Runs the fuzz targets of a build with libFuzzer, two at a time.
#
#   run.sh BUILD [NAME...]      all targets, or the named ones; PLEAT_FUZZ_SECONDS each (60)
#
# PLEAT_FUZZ_SEED is libFuzzer's seed. By default it is 0, which draws a seed. A build without a
# corpus tries the same inputs for the same seed.
#
# Useful inputs of a target stay in BUILD/corpus/NAME. The next run begins with these inputs and
# the seeds in tests/fuzz/corpus/NAME. A failing input is printed and stays in BUILD/crashes:
#   PLEAT_FUZZ_SAY=1 BUILD/fuzz_NAME FILE      runs the input again and prints its steps
set -euo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$1" && pwd)
export PLEAT_FUZZ_SECONDS=${PLEAT_FUZZ_SECONDS:-60} PLEAT_FUZZ_SEED=${PLEAT_FUZZ_SEED:-0}
export UBSAN_OPTIONS=print_stacktrace=1

# Most inputs take milliseconds. An input that takes seconds hangs.
run_one() {
    local name=$1 learnt=$build/corpus/$1 log=$build/crashes/$1.log found=$build/crashes/$1- file
    mkdir -p "$learnt" "$build/crashes"
    rm -f "$found"*
    if "$build/fuzz_$name" -max_total_time="$PLEAT_FUZZ_SECONDS" -seed="$PLEAT_FUZZ_SEED" \
        -timeout=30 -rss_limit_mb=2048 -max_len=2048 -artifact_prefix="$found" \
        "$learnt" "$source/corpus/$name" >"$log" 2>&1; then
        printf '%-12s %s\n' "$name" "$(grep -a '^Done ' "$log")"
        return
    fi
    printf '%-12s FAILED\n' "$name"
    grep -aE '^fuzz:|ERROR:|SUMMARY:|runtime error:|assertion| #[0-9]+ 0x' "$log" | head -n 30
    for file in "$found"*; do
        [ -f "$file" ] || continue
        printf '%s\n' "$file"
        od -A x -t x1z "$file" | head -n 40
    done
    return 1
}

if [ "${2:-}" = --one ]; then
    run_one "$3"
    exit
fi
if [ $# -gt 1 ]; then
    names=("${@:2}")
else
    mapfile -t names < <(cd "$source" && printf '%s\n' *_fuzz.c | sed 's/_fuzz\.c$//')
fi
printf '%s\0' "${names[@]}" | xargs -0 -n 1 -P 2 "$0" "$build" --one
