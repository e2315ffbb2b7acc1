#!/usr/bin/env bash
# Builds and runs the consumer with pkg-config. Usage: with_pkg_config.sh PREFIX WORK_DIR
set -euo pipefail
prefix=$1
work=$2
here=$(cd "$(dirname "$0")" && pwd)
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name pleat.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir pleat)
read -ra cflags <<<"$(pkg-config --cflags pleat)"
read -ra shared <<<"$(pkg-config --libs pleat)"
read -ra others <<<"$(pkg-config --static --libs pleat)"

rm -rf "$work"
mkdir -p "$work"
"${CC:-cc}" -std=c11 "${cflags[@]}" "$here/consumer.c" -o "$work/shared" "${shared[@]}"
LD_LIBRARY_PATH=$libdir "$work/shared"

static=()
for flag in "${others[@]}"; do
    [ "$flag" = -lpleat ] && flag=$(pkg-config --variable=static_library pleat)
    static+=("$flag")
done
"${CC:-cc}" -std=c11 "${cflags[@]}" "$here/consumer.c" -o "$work/static" "${static[@]}"
if readelf -d "$work/static" | grep -q libpleat; then
    echo "the static consumer needs the shared library" >&2
    exit 1
fi
LD_LIBRARY_PATH=$libdir "$work/static"
