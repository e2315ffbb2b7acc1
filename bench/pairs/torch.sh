#!/usr/bin/env bash
# torch.sh FOLDER [pluggable|class|pinned] - compiles torch.cpp against PyTorch's wheel into FOLDER,
# unless FOLDER has the result already. The last output line is the shared object's path (exit
# status 0), or the reason of a failure (77: no wheel or no compiler; else 1).
#
# The wheel comes from `./dev venv --torch`. PLEAT_PYTHON names another python with a wheel.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$1
kind=${2:-plain}

give_up() {
    printf '%s\n' "$2"
    exit "$1"
}

python=$("$here/../../cmake/venv.sh" find --torch) ||
    give_up 77 "no PyTorch: ./dev venv --torch installs it"
torch=$("$python" -c 'from importlib.util import find_spec
print(find_spec("torch").submodule_search_locations[0])' 2>/dev/null) ||
    give_up 77 "$python has no PyTorch"
site=$(dirname "$torch")
cuda=$(find "$site/nvidia" -maxdepth 1 -name 'cu1[0-9]' 2>/dev/null | sort | tail -n 1)
[ -f "$torch/lib/libc10_cuda.so" ] && [ -n "$cuda" ] ||
    give_up 77 "PyTorch in $site is not of the kind with CUDA 13"
compiler=${CXX:-g++}
command -v "$compiler" >/dev/null || give_up 77 "no C++ compiler ($compiler)"

class=$here/../../python/pleat/torch/source
[ "$kind" != class ] || [ -d "$class" ] || give_up 77 "no sources of pleat's class in $class"
key=$(cat "$here/torch.cpp" $([ "$kind" != class ] || ls "$class"/*) "${BASH_SOURCE[0]}" "$torch/version.py" <(printf '%s' "$torch") |
    sha256sum | cut -c1-12)
object=$folder/torch-$kind-$key.so
if [ ! -f "$object" ]; then
    mkdir -p "$folder" 2>/dev/null && [ -w "$folder" ] || give_up 1 "cannot write to $folder"
    new=$(mktemp "$folder/new-XXXXXX")
    trap 'rm -f "$new"' EXIT
    abi=$(sed -n 's/.*\(-D_GLIBCXX_USE_CXX11_ABI=[01]\).*/\1/p' \
        "$torch/share/cmake/Torch/TorchConfig.cmake" | head -n 1)
    options=(-std=c++17 -O2 -fPIC -shared -w -fvisibility=hidden $abi
        "-I$torch/include" "-I$torch/include/torch/csrc/api/include" "-I$cuda/include"
        "-L$torch/lib" "-Wl,-rpath,$torch/lib:$cuda/lib" -Wl,--allow-shlib-undefined)
    libraries=(-lc10_cuda -lc10)
    if [ "$kind" = pluggable ]; then
        options+=(-DPLUGGABLE)
        libraries+=(-ltorch_cuda)
    elif [ "$kind" = pinned ]; then
        options+=(-DPINNED)
        libraries=(-Wl,--no-as-needed -ltorch_cuda -ltorch_cpu -ltorch "${libraries[@]}")
    elif [ "$kind" = class ]; then
        # Copies of the headers, side by side as in a wheel, and no other files.
        headers=$(mktemp -d "$folder/include-XXXXXX")
        trap 'rm -rf "$new" "$headers"' EXIT
        cp "$here"/../../api/pleat*.h "$here/../../api/adapters/pleat_torch.h" \
            "$here/../../vmm/base/pleat_types.h" "$headers"
        options+=(-DCLASS -fno-plt "-I$class" "-I$headers"
            "-Wl,-rpath,$(cd "$folder/.." && pwd)")
        libraries+=("$folder/../libpleat.so" -ltorch_cpu)
    fi
    "$compiler" "${options[@]}" "$here/torch.cpp" -o "$new" "${libraries[@]}" >&2 ||
        give_up 1 "torch.cpp does not compile against PyTorch in $site"
    mv -f "$new" "$object"
fi
printf '%s\n' "$object"
