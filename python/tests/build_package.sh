#!/usr/bin/env bash
# Builds a wheel with pip from a copy of the sources, and installs it; the wheel itself goes to
# PACKAGE_DIR/wheel.
# Usage: build_package.sh BUILD_DIR PACKAGE_DIR. Exit 77 where there is no environment to build in.
#
# scikit-build-core comes from that environment, so that no network is needed. What pip does in a
# fresh environment of its own differs only in where that comes from. The objects are those of the
# release build, which a compiler cache knows; the link-time optimiser sees them there, and here in
# `./dev test --long` only.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1
package=$2
python=$("$root/cmake/venv.sh" find) || "$root/cmake/venv.sh" run

# One folder, always the same, so that a compiler cache knows the sources again.
work=$build/wheel-work
mkdir -p "$build"
exec 9>"$work.lock"
flock 9
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/source"
(cd "$root" && cp -R CMakeLists.txt LICENSE README.md pyproject.toml api bench cmake python segments \
    vmm "$work/source/")

link=()
[ "${PLEAT_TEST_PERCENT:-10}" -eq 100 ] || link=(--config-settings=cmake.define.PLEAT_LTO_LINK=OFF)
cd "$work"
CC=${CC:-cc} CXX=${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=2 \
    "$python" -m pip wheel --quiet --no-deps --no-build-isolation \
    --disable-pip-version-check --config-settings=build-dir="$work/source/build" \
    --config-settings=cmake.define.PLEAT_WERROR=ON "${link[@]}" --wheel-dir "$work" "$work/source"
rm -rf "$package"
"$python" -m pip install --quiet --no-deps --disable-pip-version-check --target "$package" \
    "$work"/pleat_gpu-*-py3-none-*.whl
mkdir "$package/wheel"
cp "$work"/pleat_gpu-*.whl "$package/wheel/"
ls -l "$work"/pleat_gpu-*.whl "$package/pleat/_lib"
