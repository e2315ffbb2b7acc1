#!/usr/bin/env bash
# Builds the private jemalloc once. Usage: jemalloc.sh CACHE_DIR [TARBALL]
# Prints the folder that holds include/ and lib/libjemalloc_pic.a; progress goes to stderr.
#
# The source is the official release, found in this order: the path given; the distribution's
# source package, asked from the machine's own package sources; the upstream release.
set -euo pipefail

version=5.3.0
tarball_name=jemalloc-$version.tar.bz2
sha256=2db82d1e7119df3e71b7640219b6dfe84789bc0537983c3b7ac4f7189aecfeaa
upstream=https://github.com/jemalloc/jemalloc/releases/download/$version/$tarball_name
flags=(--with-jemalloc-prefix=je_ --with-private-namespace=pleat_ --disable-cxx
       --disable-initial-exec-tls)
compiler=${PLEAT_JEMALLOC_CC:-gcc}

cache=$1
given=${2:-}
work=

say() {
    printf 'jemalloc: %s\n' "$*" >&2
}

is_official() {
    [ -f "$1" ] && printf '%s  %s\n' "$sha256" "$1" | sha256sum --check --status
}

# deb-src lines made of the machine's own deb entries, both file formats.
derive_deb_src() {
    local file
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -f "$file" ] && sed -n 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$file"
    done >"$1.list" || true
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] && grep -v '^#' "$file" | sed 's/^Types:.*/Types: deb-src/' && echo
    done >"$1.sources" || true
}

fetch_from_distribution() {
    command -v apt-get >/dev/null || return 1
    local dir=$work/apt
    mkdir -p "$dir/parts" "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/out"
    derive_deb_src "$dir/parts/source"
    # Only the package lists live in this folder: keys, proxies and the rest stay the machine's.
    local apt=(apt-get -qq
        -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$dir/parts"
        -o Dir::State::Lists="$dir/lists" -o Dir::Cache="$dir/cache"
        -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=2)
    say "asking the distribution's source package"
    "${apt[@]}" update >&2 || true
    (cd "$dir/out" && "${apt[@]}" source --download-only jemalloc >&2) || return 1
    local orig
    for orig in "$dir"/out/jemalloc_*.orig.tar.bz2; do
        if is_official "$orig"; then
            cp "$orig" "$work/$tarball_name"
            return 0
        fi
    done
    return 1
}

fetch_from_upstream() {
    say "downloading the upstream release"
    if command -v curl >/dev/null; then
        curl -fsSL --retry 2 --max-time 120 -o "$work/$tarball_name" "$upstream" || return 1
    else
        wget -q -T 120 -O "$work/$tarball_name" "$upstream" || return 1
    fi
    is_official "$work/$tarball_name"
}

find_source() {
    if [ -n "$given" ]; then
        is_official "$given" || { say "$given is not the official $tarball_name"; return 1; }
        cp "$given" "$work/$tarball_name"
    elif is_official "$cache/$tarball_name"; then
        cp "$cache/$tarball_name" "$work/$tarball_name"
    elif ! fetch_from_distribution && ! fetch_from_upstream; then
        say "no source found: pass -DPLEAT_JEMALLOC_TARBALL=PATH of $tarball_name"
        return 1
    fi
}

build() {
    local log=$work/build.log
    find_source
    [ "$work/$tarball_name" -ef "$cache/$tarball_name" ] || cp "$work/$tarball_name" "$cache/"
    say "building (under a minute, once)"
    tar -xjf "$work/$tarball_name" -C "$work"
    if ! (cd "$work/jemalloc-$version" &&
            CC=$compiler EXTRA_CFLAGS=-ffile-prefix-map="$PWD"=jemalloc ./configure "${flags[@]}" &&
            make -j2 lib/libjemalloc_pic.a) >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        return 1
    fi
    mkdir -p "$work/out/include/jemalloc" "$work/out/lib"
    cp "$work/jemalloc-$version/include/jemalloc/jemalloc.h" "$work/out/include/jemalloc/"
    cp "$work/jemalloc-$version/lib/libjemalloc_pic.a" "$work/out/lib/"
    cp "$work/jemalloc-$version/COPYING" "$work/out/"
    mv "$work/out" "$target"
}

mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
key=$(printf '%s\n' "$sha256" "${flags[@]}" prefix-map "$compiler" "$(uname -m)" | sha256sum | cut -c1-8)
target=$cache/jemalloc-$version-$key
exec 9>"$cache/lock"
flock 9
if [ ! -f "$target/lib/libjemalloc_pic.a" ]; then
    rm -rf "$target"
    work=$(mktemp -d "$cache/work.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    build
fi
printf '%s\n' "$target"
