#!/usr/bin/env bash
# Compiles pleat_umf.h of an installed tree against UMF, as C and as C++, and runs both on the
# simulator. Usage: with_umf.sh PREFIX LIBDIR BUILD_DIR
# UMF comes from the system, from UMF_PREFIX, or from PyPI, kept in the cache folder of the Python
# tests. Exit status 77 (skipped, for ctest) without UMF.
set -euo pipefail
prefix=$1 libdir=$2 build=$3
here=$(cd "$(dirname "$0")" && pwd)
version=1.2.0

find_umf() {
    local folder
    for folder in "${UMF_PREFIX:-}" /usr /usr/local; do
        if [ -n "$folder" ] && [ -f "$folder/include/umf.h" ]; then
            printf '%s\n' "$folder"
            return
        fi
    done
    "$here/../../cmake/venv.sh" fetch "umf==$version"
}

umf=$(find_umf) || exit 77
[ -f "$umf/include/umf.h" ] && [ -e "$umf/lib/libumf.so.1" ] || exit 77
mkdir -p "$build"
flags=(-Wall -Wextra -Werror -I "$prefix/include" -isystem "$umf/include")
${CC:-cc} -std=c11 "${flags[@]}" "$here/umf_provider.c" -o "$build/umf_provider" \
    "$libdir/libpleat.so" "$umf/lib/libumf.so.1" "-Wl,-rpath,$libdir:$umf/lib"
printf '#include "pleat_umf.h"\nint main() { return 0; }\n' >"$build/umf_provider.cpp"
${CXX:-c++} -std=c++17 "${flags[@]}" -fsyntax-only "$build/umf_provider.cpp"
"$build/umf_provider"
