#!/usr/bin/env bash
# Builds Release, and packs all files for run.py into one folder for another machine. That machine
# needs the same architecture, and a C library at least as new as the version printed at the end.
# Usage: pack.sh DIR [BUILD_DIR]     DIR: new, empty, or an earlier pack, which is replaced
#                                    BUILD_DIR: build/pack unless given; an existing one is reused
#
# On the other machine: python3 DIR/bench/gpu/run.py a --out RESULTS
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
pack=${1:?Usage: pack.sh DIR [BUILD_DIR]}
build=${2:-$root/build/pack}
readonly marker=.pleat-gpu-pack     # marks a folder made by this script, which may be replaced
readonly libraries=(libpleat.so.0 libpleat_torch.so libpleat_sim.so libpleat_runtime.so)
readonly traces=(gpt2s_tiny llama8b_fsdp16_var)

# Only a marked folder is emptied: a slip in DIR must not destroy a user's files.
refuse_what_is_not_ours() {
    if [ -e "$pack" ] && [ ! -d "$pack" ]; then
        echo "pack.sh: $pack is no folder: give a new one" >&2
        exit 2
    fi
    if [ -d "$pack" ] && [ ! -f "$pack/$marker" ] && [ -n "$(ls -A "$pack")" ]; then
        echo "pack.sh: $pack holds files that pack.sh did not put there (it has no $marker):" \
            "give a new or an empty folder, or remove it yourself" >&2
        exit 2
    fi
}

build_all() {
    [ -f "$build/build.ninja" ] ||
        cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=NOTICE
    cmake --build "$build" -j "$(nproc)" --target pleat_command pleat_shared pleat_torch pleat_sim \
        pleat_runtime
}

# Libraries besides the C library, since another machine may lack them.
needed_libraries() {
    ldd "$build/pleat" |
        sed -nE 's/^.*=> (\/[^ ]*) .*$/\1/p' | sort -u |
        grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so'
}

# The newest version of the C library's symbols that any packed program needs.
newest_glibc() {
    objdump -T "$pack"/pleat "$pack"/*.so* "$pack"/needed/* |
        grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1
}

say_what_it_is() {
    local commit
    commit=$(git -C "$root" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
    if [ -n "$(git -C "$root" status --porcelain -- api segments vmm 'bench/*.c' python 2>/dev/null)" ]
    then
        commit+=+changes
    fi
    printf '%s, Release, %s\n' "$commit" "$(cc --version | head -1)"
}

refuse_what_is_not_ours
build_all
refuse_what_is_not_ours # once more: building takes a while
mkdir -p "$pack"
find "$pack/" -mindepth 1 -maxdepth 1 ! -name "$marker" -exec rm -rf {} +
touch "$pack/$marker"
mkdir -p "$pack"/{needed,traces,python,bench}
for name in pleat "${libraries[@]}"; do
    install -m 755 "$(readlink -f "$build/$name")" "$pack/$name"
    strip --strip-unneeded "$pack/$name"
done
while read -r library; do
    install -m 755 "$library" "$pack/needed/"
done < <(needed_libraries)
for name in "${traces[@]}"; do
    cp "$root/bench/traces/$name.trace.gz" "$pack/traces/"
done
cp -R "$root/python/pleat" "$pack/python/"
# The headers for compiling PyTorch's class, laid out as in an installed package.
mkdir "$pack/python/pleat/_include"
cp "$root"/api/pleat*.h "$root/api/adapters/pleat_torch.h" "$root/vmm/base/pleat_types.h" \
    "$pack/python/pleat/_include/"
cp -R "$root/bench/gpu" "$pack/bench/"
find "$pack" -name __pycache__ -prune -exec rm -rf {} +
say_what_it_is >"$pack/BUILD"
du -sh "$pack"
tar -cz -C "$pack" . | wc -c | awk '{ printf "%.1f MiB as a compressed archive\n", $1 / 1048576 }'
echo "needs a C library of $(newest_glibc) or newer"
