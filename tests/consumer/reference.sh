#!/usr/bin/env bash
# Makes the site of pages and reference (docs/reference/Doxyfile), and checks that the site has each
# public function. Usage: reference.sh OUT_DIR. Exit status 77 without Doxygen.
set -euo pipefail

mkdir -p "$1"
DOCS_OUT=$(cd "$1" && pwd)
export DOCS_OUT
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v doxygen >/dev/null || exit 77

rm -rf "$DOCS_OUT/html"
warnings=$(doxygen docs/reference/Doxyfile 2>&1)
if [ -n "$warnings" ]; then
    printf '%s\n' "$warnings" >&2
    exit 1
fi

n=0
for header in api/pleat*.h vmm/base/pleat_sim.h; do
    page=$DOCS_OUT/html/$(basename "$header" .h | sed 's/_/__/g')_8h.html
    # The page has exported functions only: no inline forms.
    for name in $(grep -v 'static inline' "$header" |
        grep -oE '\bpleat_[a-z0-9_]+\(pleat |\bpleat_sim_[a-z0-9_]+\(' | sed 's/(.*//' | sort -u); do
        n=$((n + 1))
        grep -q "$name" "$page" || {
            echo "$page lacks $name" >&2
            exit 1
        }
    done
done
echo "$n functions are in the reference"
[ "$n" -ge 40 ]
