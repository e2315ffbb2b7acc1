#!/usr/bin/env bash
# Runs the program and the commands of docs/tutorial.md for an installed tree.
# Usage: tutorial.sh PREFIX WORK_DIR
set -euo pipefail
prefix=$1
work=$2
page=$(cd "$(dirname "$0")/../../docs" && pwd)/tutorial.md

block() { # KIND: print the page's code of this kind
    awk -v start="\`\`\`$1" '$0 == "```" { on = 0 } on { print } $0 == start { on = 1 }' "$page"
}

rm -rf "$work"
mkdir -p "$work"
cd "$work"
block c >first.c
block sh | sed "s|\$HOME/.local|$prefix|g" >commands.sh
unset PLEAT_CONF PLEAT_SIM
bash -euo pipefail commands.sh >out 2>err || {
    cat out err >&2
    exit 1
}
cat out err
[ "$(grep -cx '256 MiB live in 256 MiB of memory' out)" = 2 ] # shared and static
grep -qx 'as it should' out
grep -q 'requested' err # the error says how much was asked for
