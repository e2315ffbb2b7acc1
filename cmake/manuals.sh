#!/usr/bin/env bash
# Writes the manual pages of pleat, of each of its commands and of pleat-runtime, from their --help.
# Usage: manuals.sh HELP2MAN VERSION PLEAT PLEAT_RUNTIME DIR
set -euo pipefail
help2man=$1 version=$2 pleat=$3 runtime=$4 dir=$5
rm -rf "$dir"
mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A page is named after the command as it is called, not after where it lies in this build.
ln -s "$pleat" "$work/pleat"
ln -s "$runtime" "$work/pleat-runtime"
PATH=$work:$PATH

# page COMMAND WHAT: COMMAND may have several words.
page() {
    local file=$dir/${1// /-}.1
    "$help2man" --no-info --section 1 --source "pleat $version" --manual "User Commands" \
        --version-string "$version" --name "$2" --output "$file" "$1"
    # The list of manuals knows pages by one word: pleat-ab.
    sed -i "/^\.SH NAME/{n;s/^$1 /${1// /-} /}" "$file"
    gzip -9n "$file"
}

page pleat "GPU memory, mapped where a request needs it: replay, compare and measure allocators"
page pleat-runtime "run a PyTorch program on a simulated GPU"
pleat --help | sed -n 's/^  \([a-z]\+\( [a-z]\+\)\?\)  \+\(.*\)$/\1\t\3/p' |
    while IFS=$'\t' read -r words what; do
        page "pleat $words" "$what"
    done
