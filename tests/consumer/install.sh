#!/usr/bin/env bash
# Installs the build into an empty prefix. Usage: install.sh CMAKE BUILD_DIR PREFIX
set -euo pipefail
prefix=$3
rm -rf "$prefix"
"$1" --install "$2" --prefix "$prefix" >/dev/null
fail() {
    echo "$*" >&2
    exit 1
}
for pattern in libpleat.so libpleat.so.0 libpleat.a libpleat_sim.so pleat.h pleat_types.h \
    pleat_pool.h pleat_checkpoint.h pleat_snapshot.h pleat_watch.h pleat_mapping.h \
    pleat_torch.h pleat_torch.hpp pleat_cxx.hpp pleat_cxx_base.hpp pleat_cxx_pmr.hpp pleat_cxx_scopes.hpp pleat_umf.h pleat_frameworks.h pleat_sim.h pleat-config.cmake pleat.pc pleat a100.cost \
    gpt2s_tiny.trace.gz; do
    [ -n "$(find "$prefix" -name "$pattern" ! -type d)" ] || fail "not installed: $pattern"
done

# The licences of all that the libraries are made of.
grep -q '^MIT License' "$prefix/share/doc/pleat/LICENSE" || fail "no licence"
if [ -f "$(find "$prefix" -name libpleat.a)" ] && grep -q 'META_SYSTEM:BOOL=OFF' "$2/CMakeCache.txt"; then
    grep -q 'Jason Evans' "$prefix/share/doc/pleat/LICENSE.jemalloc" || fail "no licence of jemalloc"
fi

# A release has neither symbol tables nor debug information. It does not contain the paths of its
# build: neither this checkout nor the cache with jemalloc.
grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=Release' "$2/CMakeCache.txt" || exit 0
source_dir=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$2/CMakeCache.txt")
cache_dir=$(sed -n 's/^PLEAT_CACHE_DIR:PATH=//p' "$2/CMakeCache.txt")
while read -r file; do
    if [[ $file == *.a ]]; then
        sections='\.debug_'
    else
        sections='\.debug_|\.symtab'
    fi
    if readelf -SW "$file" | grep -qE "$sections"; then
        fail "not stripped: $file"
    fi
    for path in "$source_dir" "$cache_dir"; do
        if strings -a "$file" | grep -qF "$path/"; then
            fail "$file tells that it was built in $path"
        fi
    done
done < <(find "$prefix" \( -name '*.so*' -o -name '*.a' -o -path '*/bin/pleat' \) -type f)
