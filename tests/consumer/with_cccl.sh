#!/usr/bin/env bash
# Compiles pleat_cuda_mr.hpp of an installed tree against the CCCL of the machine's CUDA and those of
# PyPI below, kept in the cache folder of the Python tests, and runs it on the simulated runtime.
# Usage: with_cccl.sh PREFIX LIBDIR BUILD_DIR
# Exit status 77 (skipped, for ctest) without CCCL or C++20.
set -euo pipefail
prefix=$1 libdir=$2 build=$3
source=$(cd "$(dirname "$0")" && pwd)/cuda_mr.cpp
compiler=${CXX:-c++}

# CCCL 3.1, 3.2 and 3.5, with the headers of the runtime that they include.
fetched=(nvidia-cuda-cccl==13.1.115 nvidia-cuda-cccl==13.2.86 nvidia-cuda-cccl==13.3.5.0.6)
runtime=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88)

# fetch PACKAGE...: the folder of headers.
fetch() {
    local folder
    folder=$("$(dirname "$0")/../../cmake/venv.sh" fetch "$@") || return 1
    printf '%s\n' "$folder"/lib/python*/site-packages/nvidia/cu13/include
}

find_includes() {
    local cuda=${CUDA_HOME:-/usr/local/cuda}/include headers package cccl
    if [ -f "$cuda/cccl/cuda/memory_resource" ]; then
        printf '%s %s\n' "$cuda/cccl" "$cuda"
    fi
    headers=$(fetch "${runtime[@]}") || return 0
    for package in "${fetched[@]}"; do
        cccl=$(fetch "$package") || return 0
        printf '%s %s\n' "$cccl/cccl" "$headers"
    done
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
        "$libdir/libpleat_runtime.so" "$libdir/libpleat_sim.so" "-Wl,-rpath,$build:$libdir"
    PLEAT_SIM=capacity:1G,devices:2,depth:4096 PLEAT_CONF=driver:sim "$build/cuda_mr"
done
