#!/usr/bin/env bash
# Builds a wheel with pip from a copy of the sources, and installs it; the wheel itself goes to
# PACKAGE_DIR/wheel.
# Usage: build_package.sh BUILD_DIR PACKAGE_DIR. Exit 77 where there is no environment to build in.
#
# scikit-build-core comes from that environment, so that no network is needed. What pip does in a
# fresh environment of its own differs only in where that comes from.
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

cd "$work"
CMAKE_BUILD_PARALLEL_LEVEL=2 "$python" -m pip wheel --quiet --no-deps --no-build-isolation \
    --disable-pip-version-check --config-settings=build-dir="$work/build" --wheel-dir "$work" \
    "$work/source"
rm -rf "$package"
"$python" -m pip install --quiet --no-deps --disable-pip-version-check --target "$package" \
    "$work"/pleat_gpu-*-py3-none-*.whl
mkdir "$package/wheel"
cp "$work"/pleat_gpu-*.whl "$package/wheel/"
ls -l "$work"/pleat_gpu-*.whl "$package/pleat/_lib"
