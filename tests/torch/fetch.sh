#!/usr/bin/env bash
# Fetches the files for PyTorch's own tests into a cache folder, which all checkouts share.
#
#   fetch.sh tests              print the folder of test_cuda.py and others, fetched when missing
#   fetch.sh python [VERSION]   print the python of the virtual environment with torch 2.6.0 or
#                               VERSION, made when missing (up to 5.5 GB)
#   fetch.sh venv VERSION       print the folder of this environment, made or not
#
# The wheels have no tests, so they come with Debian's source package. PLEAT_TORCH_PYTHON names
# another python to use as it is; PLEAT_CACHE_DIR another cache folder.
set -euo pipefail

version=2.6.0
suite=trixie
tarball=pytorch_$version+dfsg.orig.tar.xz
sha256=099a9601bc40d67656e75735c44abedb0fbe92d08817852ab7472eebb7e6ddff
requirements=(numpy expecttest hypothesis psutil pytest packaging)
# test_cuda_expandable_segments.py imports tools.stats.
members=('*/test/test_cuda*.py' '*/tools/__init__.py' '*/tools/stats/*.py')

cache=${PLEAT_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/pleat}
base=${PLEAT_BASE_PYTHON:-python3}
work=

say() {
    printf 'torch tests: %s\n' "$*" >&2
}

is_official() {
    [ -f "$1" ] && printf '%s  %s\n' "$sha256" "$1" | sha256sum --check --status
}

# The machine's mirror of Debian, from apt's settings; fails without one.
mirror() {
    local found
    found=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
        /etc/apt/sources.list.d/*.sources 2>/dev/null || true; } |
        grep -v '^#' | grep -o 'https\?://[^ ]*/debian/\?\( \|$\)' | head -n 1) || true
    [ -n "$found" ] && printf '%s\n' "$found"
}

# This folder has only the lists. Keys, proxies and the rest come from the machine.
fetch_tarball() {
    command -v apt-get >/dev/null || { say "no apt-get to fetch $tarball with" && return 1; }
    local from
    from=$(mirror) ||
        { say "apt's sources name no mirror of Debian to fetch $tarball from" && return 1; }
    mkdir -p "$work"/lists/partial "$work"/apt/archives/partial "$work"/out
    printf 'deb-src %s %s main\n' "$from" "$suite" >"$work/sources.list"
    local apt=(apt-get -qq
        -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/apt"
        -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=2)
    say "fetching the source package of $version (27 MB)"
    "${apt[@]}" update >&2 || return 1
    (cd "$work/out" && "${apt[@]}" source --download-only --tar-only pytorch >&2) || return 1
    is_official "$work/out/$tarball" || { say "$suite has another version now" && return 1; }
    mv "$work/out/$tarball" "$cache/$tarball"
}

tests() {
    local target=$cache/torch-tests-$version
    if [ ! -d "$target" ]; then
        work=$(mktemp -d "$cache/work.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        is_official "$cache/$tarball" || fetch_tarball
        mkdir "$work/tree"
        tar -xJf "$cache/$tarball" -C "$work/tree" --strip-components=1 --wildcards "${members[@]}"
        mv "$work/tree" "$target"
    fi
    printf '%s/test\n' "$target"
}

venv() {
    printf '%s/venv-torch-%s\n' "$cache" "$1"
}

# python [VERSION]
python() {
    if [ -n "${PLEAT_TORCH_PYTHON:-}" ]; then
        printf '%s\n' "$PLEAT_TORCH_PYTHON"
        return
    fi
    local wanted=${1:-$version} folder
    folder=$(venv "$wanted")
    if [ ! -f "$folder/pleat.stamp" ]; then
        say "installing torch $wanted into a virtual environment (up to 5.5 GB)"
        "$base" -m venv "$folder" >&2
        "$folder/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check \
            "torch==$wanted" "${requirements[@]}" >&2
        touch "$folder/pleat.stamp"
    fi
    printf '%s\n' "$folder/bin/python"
}

# Steps that may fetch, one process at a time.
locked() {
    mkdir -p "$cache"
    exec 9>"$cache/torch.lock"
    flock 9
    "$@"
}

case "${1:-}" in
tests) locked tests ;;
python) locked python "${2:-}" ;;
venv) venv "$2" ;;
*)
    sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
