#!/usr/bin/env bash
# A parent project adds the sources by add_subdirectory and by FetchContent. It keeps its own
# settings, and its programs link and run with every generator.
# Usage: as_subproject.sh CMAKE SOURCE_DIR WORK_DIR
set -euo pipefail
cmake=$1 source=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
fail() {
    echo "$generator: $*" >&2
    exit 1
}
configure() { # FOLDER FETCH
    "$cmake" -S "$here/parent" -B "$1" -G "$generator" -DPLEAT_SOURCE="$source" -DFETCH="$2" \
        --log-level=WARNING
}
build() { # TARGET
    "$cmake" --build "$parent" --target "$1" -j 2 >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        fail "$1 is not built"
    }
}

rm -rf "$work"
export PLEAT_CONF=driver:sim
for generator in Ninja "Unix Makefiles"; do
    parent=$work/${generator##* }
    configure "$parent" OFF
    configure "$parent.fetched" ON

    # The static library is built first, since other targets may build its parts by chance.
    build static
    build all
    if [ -n "$(find "$parent/programs" -name 'libpleat*')" ]; then
        fail "pleat's libraries lie among the parent's programs"
    fi
    "$parent/programs/shared"
    sim=$(find "$parent" -name libpleat_sim.so)
    PLEAT_SIM_LIBRARY=$sim "$parent/programs/static"

    # A recompiled file gets into the static library, too. The sources are not touched, since other
    # builds go by their times.
    object=$(find "$parent" -path '*/pl_segments.dir/*.o' -print -quit)
    rm "$object"
    build static
    [ -e "$object" ] && [ "$(find "$parent" -name libpleat.a)" -nt "$object" ] ||
        fail "libpleat.a lacks $object"

    # What a parent installs is the parent's own.
    DESTDIR=$work/root "$cmake" --install "$parent" --prefix /usr >/dev/null
    if [ -n "$(find "$work/root" ! -type d 2>/dev/null)" ]; then
        fail "pleat installs itself with its parent"
    fi
done
