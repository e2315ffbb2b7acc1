#!/usr/bin/env bash
# Fails if clang-format 14 would change a C file; exit status 77 without clang-format 14.
set -euo pipefail
cd "$(dirname "$0")/../.."

find_formatter() {
    local name
    for name in clang-format-14 clang-format; do
        if command -v "$name" >/dev/null && "$name" --version | grep -q 'version 14\.'; then
            printf '%s\n' "$name"
            return
        fi
    done
    echo "clang-format 14 is not installed" >&2
    exit 77
}

formatter=$(find_formatter)
mapfile -t files < <(find api bench segments tests vmm -name '*.[ch]' -o -name '*.[ch]pp' | sort)
if [ "${1:-}" = --fix ]; then
    "$formatter" --style=file -i "${files[@]}"
else
    differs=$("$formatter" --style=file --dry-run "${files[@]}" 2>&1 |
        sed -n 's/^\([^: ]*\.[chp]*\):[0-9]*:.*Wclang-format-violations.*/\1/p' | sort | uniq -c |
        sed 's/^ *\([0-9]*\) \(.*\)/\2: \1 of them/')
    if [ -n "$differs" ]; then
        printf 'differences from clang-format 14 (./dev format mends them):\n%s\n' "$differs"
        exit 1
    fi
fi
