#!/usr/bin/env bash
# Builds and runs the consumer with find_package. Usage: with_cmake.sh PREFIX WORK_DIR
set -euo pipefail
prefix=$1
work=$2
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$work"
cmake -S "$here" -B "$work" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work" >/dev/null
"$work/consumer_shared"
"$work/consumer_cxx"
# The static library looks for the simulator beside the program and then as the loader does.
LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libpleat_sim.so)") "$work/consumer_static"
"$work/consumer_sim"
