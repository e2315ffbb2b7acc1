#!/usr/bin/env bash
# Compiles pleat_cuda_mr.hpp of an installed tree against every CCCL found on the machine (in CUDA,
# or in RMM's wheel), and runs the program on the simulated runtime.
# Usage: with_cccl.sh PREFIX LIBDIR BUILD_DIR
# Exit status 77 (skipped, for ctest) without CCCL or C++20.
set -euo pipefail
prefix=$1 libdir=$2 build=$3
source=$(cd "$(dirname "$0")" && pwd)/cuda_mr.cpp
compiler=${CXX:-c++}

find_includes() {
    local cuda=${CUDA_HOME:-/usr/local/cuda}/include
    if [ -f "$cuda/cccl/cuda/memory_resource" ]; then
        printf '%s %s\n' "$cuda/cccl" "$cuda"
    fi
    local venv rapids
    venv=$("$(dirname "$0")/../../cmake/venv.sh" find 2>/dev/null) || return 0
    rapids=$("$venv" -c 'import librmm; print(librmm.__path__[0])' 2>/dev/null) || return 0
    if [ -f "$cuda/cuda_runtime_api.h" ]; then
        printf '%s %s\n' "$rapids/include/rapids" "$cuda"
    fi
}

echo 'static_assert(__cplusplus > 201703L);' |
    "$compiler" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null || exit 77
mapfile -t includes < <(find_includes)
[ ${#includes[@]} -gt 0 ] || exit 77
mkdir -p "$build"
for pair in "${includes[@]}"; do
    read -r cccl cuda <<<"$pair"
    flags=(-std=c++20 -Wall -Wextra -Werror -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
        -I "$prefix/include" -isystem "$cccl" -isystem "$cuda")
    echo "with $cccl"
    if [ ! -f "$libdir/libpleat_runtime.so" ]; then
        "$compiler" "${flags[@]}" -fsyntax-only "$source"
        continue
    fi
    ln -sf "$libdir/libpleat_runtime.so" "$build/libcuda.so.1"
    ln -sf "$libdir/libpleat_sim.so" "$build/libpleat_sim.so"
    "$compiler" "${flags[@]}" "$source" -o "$build/cuda_mr" "$libdir/libpleat.so" \
        "$libdir/libpleat_runtime.so" "-Wl,-rpath,$build:$libdir" "-Wl,-rpath-link,$libdir"
    PLEAT_SIM=capacity:1G PLEAT_CONF=driver:sim "$build/cuda_mr"
done
