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

# Closed from the start: it is told, whatever else is written, and no file is opened in its place.
for line in "works" "--version" "help ab" "works --json $work/small.trace" \
    "replay --driver sim --timeline=$work/timeline.json $work/small.trace" \
    "replay --driver sim --json --timeline=$work/timeline.json.gz $work/small.trace" \
    "bench sleep --bytes 32M --rounds 1 --csv $work/sleep.csv" \
    "ab --driver sim --no-report --memory 2x --out $work/closed $work/small.trace"; do
    read -ra words <<<"$line"
    status=0
    "$pleat" "${words[@]}" >&- 2>"$work/err" || status=$?
    refuses "$line without a standard output" "$status"
done
for file in "$work/timeline.json" "$work/closed/verdicts.jsonl"; do
    python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])] \
        if sys.argv[1].endswith("l") else json.load(open(sys.argv[1]))' "$file" ||
        fail "$file is not what was to be written"
done
gzip -t "$work/timeline.json.gz"
! grep -v '^[a-z_0-9,.]*$' "$work/sleep.csv" || fail "a table lies in $work/sleep.csv"

# Without the two others nothing is lost.
"$pleat" convert "$work/small.trace" "$work/copy.trace" >"$work/out" <&- 2>&- ||
    fail "convert without input and errors: exit status $?"
[ "$("$pleat" works "$work/copy.trace" | tail -n 1)" = \
    "$("$pleat" works "$work/small.trace" | tail -n 1 | sed s/small/copy/)" ] ||
    fail "convert without input and errors writes something else"

# A full file is told, with its name.
ln -s /dev/full "$work/full.trace"
for line in "convert $work/small.trace $work/full.trace --force" \
    "replay --driver sim --timeline=$work/full.trace $work/small.trace" \
    "bench sleep --bytes 32M --rounds 1 --csv $work/full.trace" \
    "probe --driver sim --cost-file=$work/full.trace"; do
    read -ra words <<<"$line"
    status=0
    "$pleat" "${words[@]}" >"$work/out" 2>"$work/err" || status=$?
    [ "$status" -ne 0 ] || fail "$line: exit status 0"
    grep -q 'full.trace: .*No space left' "$work/err" || fail "$line: does not say why"
done

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

# A folder that is none is told before anything is measured.
for folder in "$work/nosuch" "$work/small.trace"; do
    status=0
    "$pleat" bench sleep --folder="$folder" >"$work/out" 2>"$work/err" || status=$?
    [ "$status" -eq 2 ] && grep -qF -- "--folder: $folder: " "$work/err" && [ ! -s "$work/out" ] ||
        fail "bench sleep --folder=$folder: exit status $status"
done

runtime=$(dirname "$pleat")/pleat-runtime
for words in --help --version; do
    for output in /dev/full closed; do
        status=0
        if [ "$output" = closed ]; then
            "$runtime" $words >&- 2>"$work/err" || status=$?
        else
            "$runtime" $words >"$output" 2>"$work/err" || status=$?
        fi
        [ ! -x "$runtime" ] || refuses "pleat-runtime $words, $output" "$status"
    done
done

# A device that cannot be used is named once.
for line in "replay --driver sim $work/small.trace" "bench sleep" "bench tail" \
    "ab --driver sim --no-report --out $work/none $work/small.trace"; do
    read -ra words <<<"$line"
    "$pleat" "${words[@]}" --sim "without:[cuMemCreate]" >"$work/out" 2>"$work/err" || true
    ! cat "$work/out" "$work/err" | grep -q 'device 0: device 0' || fail "$line: names it twice"
done
