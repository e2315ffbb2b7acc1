#!/usr/bin/env bash
# Every command has a manual page with the command's options, and bash completes its words.
# Usage: manuals.sh PREFIX. Exit status 77 (skipped, for ctest) if help2man made no pages.
set -euo pipefail
prefix=$1
PATH=$prefix/bin:$PATH
fail() {
    echo "$*" >&2
    exit 1
}

# shellcheck source=/dev/null
source "$prefix/share/bash-completion/completions/pleat"
compopt() { :; } # outside of a completion there is nothing to set

# completes 'WORDS' EXPECTED: the last word of WORDS is being typed.
completes() {
    mapfile -t COMP_WORDS < <(tr ' ' '\n' <<<"$1")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    if [ "${COMP_WORDS[0]}" = pleat ]; then _pleat; else _pleat_runtime; fi
    [[ " ${COMPREPLY[*]} " == *" $2 "* ]] || fail "'$1' completes to '${COMPREPLY[*]}', without $2"
}
completes 'pleat rep' replay
completes 'pleat bench pa' pairs
completes 'pleat help fi' fit
completes 'pleat ab --mem' --memory=
completes 'pleat bench pairs --al' --all
completes 'pleat bench pairs --no-c' --no-callgrind
completes 'pleat replay --com' --compact
completes 'pleat fit gpt2s' gpt2s_tiny
completes 'pleat-runtime --alloc' --allocator

manuals=$prefix/share/man/man1
[ -d "$manuals" ] || exit 77
while read -r words; do
    page=$manuals/pleat-${words// /-}.1.gz
    [ -f "$page" ] || fail "no manual page of pleat $words"
    # shellcheck disable=SC2086
    for option in $(_pleat_options pleat $words); do
        # troff writes a hyphen as \-
        name=${option%=}
        gzip -dc "$page" | sed 's/\\-/-/g' | grep -qF -- "$name" || fail "$page: nothing on $name"
    done
done < <(_pleat_words pleat)
for page in pleat pleat-runtime; do
    [ -f "$manuals/$page.1.gz" ] || fail "no manual page of $page"
done
