#!/usr/bin/env bash
# If output cannot be written, the user gets one line on stderr and exit status 2. Also tests the
# words that ask for help. Usage: output.sh PLEAT
set -euo pipefail
pleat=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PLEAT_SIM PLEAT_CONF

fail() {
    echo "$*" >&2
    cat "$work/err" >&2
    exit 1
}

# refuses WHAT STATUS: the last command ended with STATUS and exactly one line on stderr.
refuses() {
    [ "$2" -eq 2 ] || fail "$1: exit status $2, not 2"
    [ "$(grep -c 'cannot write to standard output' "$work/err")" -eq 1 ] ||
        fail "$1: not one line about it"
}

printf 'a 1 1000000 0\nf 1\n' >"$work/small.trace"
for line in "works" "works --json" "works $work/small.trace" "replay --driver sim $work/small.trace" \
    "replay --driver sim --json $work/small.trace" "fit --driver sim --json $work/small.trace" \
    "ab --driver sim --no-report --memory 2x --out $work/ab $work/small.trace" \
    "--version" "--help" "help" "ab --help" "help bench"; do
    read -ra words <<<"$line"
    status=0
    "$pleat" "${words[@]}" >/dev/full 2>"$work/err" || status=$?
    refuses "$line > /dev/full" "$status"
    status=0
    # The reader is gone before the first byte. So there is no race.
    { "$pleat" "${words[@]}" 2>"$work/err" || status=$?; echo "$status" >"$work/status"; } |
        exec true || true
    grep -qx '[02]' "$work/status" || fail "$line | true: exit status $(cat "$work/status")"
done

# The fifo's reader has opened it and left. So every write fails.
mkfifo "$work/fifo"
exec 8<>"$work/fifo"
exec 9>"$work/fifo" 8<&-
status=0
"$pleat" works >&9 2>"$work/err" || status=$?
exec 9>&-
refuses "works into a pipe without a reader" "$status"

status=0
"$pleat" works >&- 2>"$work/err" || status=$?
refuses "works without a standard output" "$status"

# Output to other files is still written.
"$pleat" replay --driver sim --json "$work/small.trace" >"$work/out" 2>"$work/err"
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "replay --json does not write one line"

# says TEXT WORD...: pleat WORD... ends with 0 and prints TEXT.
says() {
    "$pleat" "${@:2}" >"$work/out" 2>"$work/err" || fail "pleat ${*:2}: exit status $?"
    grep -qF -- "$1" "$work/out" || fail "pleat ${*:2}: does not say '$1'"
}

says "Usage: pleat ab" help ab
says "Usage: pleat bench pairs" help bench pairs
for words in "bench --help" "help bench"; do
    read -ra words <<<"$words"
    says "bench tail" "${words[@]}"
    if grep -q '^  replay' "$work/out"; then
        fail "pleat ${words[*]} lists more than its own words"
    fi
done
status=0
"$pleat" help nosuch >"$work/out" 2>"$work/err" || status=$?
[ "$status" -eq 2 ] || fail "pleat help nosuch: exit status $status"
