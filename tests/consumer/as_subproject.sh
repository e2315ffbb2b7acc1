#!/usr/bin/env bash
# A parent project takes the sources in, by add_subdirectory and by FetchContent, and keeps its own
# settings; its programs link and run. Usage: as_subproject.sh CMAKE SOURCE_DIR WORK_DIR
set -euo pipefail
cmake=$1 source=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
for fetch in OFF ON; do
    "$cmake" -S "$here/parent" -B "$work/$fetch" -G Ninja -DPLEAT_SOURCE="$source" -DFETCH=$fetch \
        --log-level=WARNING
done
"$cmake" --build "$work/OFF" --target shared static pleat_sim -j 2 >"$work/log" || {
    cat "$work/log" >&2
    exit 1
}
if [ -n "$(find "$work/OFF/programs" -name 'libpleat*')" ]; then
    echo "pleat's libraries lie among the parent's programs" >&2
    exit 1
fi
export PLEAT_CONF=driver:sim
"$work/OFF/programs/shared"
sim=$(find "$work/OFF" -name libpleat_sim.so)
PLEAT_SIM_LIBRARY=$sim "$work/OFF/programs/static"
# What a parent installs is the parent's own.
DESTDIR=$work/root "$cmake" --install "$work/OFF" --prefix /usr >/dev/null
if [ -n "$(find "$work/root" ! -type d 2>/dev/null)" ]; then
    echo "pleat installs itself with its parent" >&2
    exit 1
fi
