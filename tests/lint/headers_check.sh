#!/usr/bin/env bash
# Fails if a public header does not compile where it is the first and only one, in C11 or C++17:
# programs include what they need, in any order.
set -euo pipefail
cd "$(dirname "$0")/../.."

compiles() { # HEADER LANGUAGE STANDARD
    printf '#include "%s"\n' "$1" |
        "${CC:-cc}" -x "$2" -std="$3" -fsyntax-only -Wall -Wextra -Werror -Iapi -Iapi/adapters -Ivmm/base -
}

status=0
for header in api/pleat*.h api/adapters/pleat_torch.h api/adapters/pleat_frameworks.h; do
    compiles "$(basename "$header")" c c11 || status=1
    compiles "$(basename "$header")" c++ c++17 || status=1
done
exit $status
