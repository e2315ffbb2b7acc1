#!/usr/bin/env bash
# The environment of ./dev peers, kept in the cache folder of the Python tests.
#
#   fetch.sh python      make it if need be; print its python
#   fetch.sh cupy        the folder of CuPy's own tests, of the sources of the same version
#   fetch.sh find        print the python if all is there; else fail
#
# CuPy's wheel contains a linked-in CUDA runtime, which starts on NVIDIA's driver only. So the one
# module that calls the runtime is compiled again from CuPy's sources, linked with the shared one,
# which the preloaded simulated runtime stands in for.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${PLEAT_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/pleat}
base=${PLEAT_BASE_PYTHON:-python3}
folder=$cache/peers-$(cat "$here/requirements.txt" "$here/fetch.sh" | sha256sum | cut -c1-16)
python=$folder/bin/python

say() {
    printf 'peers: %s\n' "$*" >&2
}

version_of() {
    sed -n "s/^$1==//p" "$here/requirements.txt"
}

# The names that CuPy's build gives to Cython, for CUDA 13.0.
build_runtime_module() {
    local source=$1 site cuda module
    site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cuda=$site/nvidia/cu13
    module=$(echo "$site"/cupy_backends/cuda/api/runtime.*.so)
    (cd "$source" && "$folder/bin/cython" -3 --cplus -I . -E CUPY_CUDA_VERSION=13000,CUPY_HIP_VERSION=0 \
        -E CUPY_USE_CUDA_PYTHON=0,CUPY_CUFFT_STATIC=0 cupy_backends/cuda/api/runtime.pyx \
        -o "$folder/runtime.cpp" >"$folder/cython.log" 2>&1) || {
        cat "$folder/cython.log" >&2
        return 1
    }
    "${CXX:-c++}" -shared -fPIC -O1 -w -I "$cuda/include" -I "$source" -I "$source/cupy_backends" \
        -I "$source/cupy_backends/cuda" -I "$source/cupy_backends/cuda/api" \
        -I "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
        "$folder/runtime.cpp" -o "$module" -L "$cuda/lib" -l:libcudart.so.13 "-Wl,-rpath,$cuda/lib"
}

install_all() {
    local version
    version=$(version_of cupy-cuda13x)
    rm -rf "$folder"
    "$base" -m venv "$folder" >&2
    say "installing requirements.txt (600 MB, once on this machine)"
    "$python" -m pip install --quiet --no-cache-dir --disable-pip-version-check \
        --requirement "$here/requirements.txt" >&2
    say "fetching CuPy's sources"
    "$python" -m pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps \
        --no-binary cupy --no-build-isolation --dest "$folder/sources" "cupy==$version" >&2
    tar -xzf "$folder/sources/cupy-$version.tar.gz" -C "$folder/sources"
    build_runtime_module "$folder/sources/cupy-$version"
    touch "$folder/complete"
}

make_all() {
    if [ ! -f "$folder/complete" ]; then
        mkdir -p "$cache"
        exec 9>"$cache/peers.lock"
        flock 9
        [ -f "$folder/complete" ] || install_all
    fi
}

case "${1:-}" in
python)
    make_all
    printf '%s\n' "$python"
    ;;
cupy)
    make_all
    printf '%s\n' "$folder/sources/cupy-$(version_of cupy-cuda13x)/tests"
    ;;
find)
    [ -f "$folder/complete" ]
    printf '%s\n' "$python"
    ;;
*)
    sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
