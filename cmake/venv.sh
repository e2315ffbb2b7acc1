#!/usr/bin/env bash
# The virtual environment of the Python tests, kept in a cache folder that all checkouts share.
#
#   venv.sh make [--torch]         create it or bring it up to python/requirements-test.txt, with
#                                  --torch to requirements-torch.txt, too; prints its python
#   venv.sh find [--torch]         print its python; fails where that does not meet the requirements
#   venv.sh run [--torch] ARG...   run that python; exit status 77, which ctest takes as skipped,
#                                  without one
#   venv.sh fetch NAME==VERSION... print a folder with these packages alone (lib/..., include),
#                                  without what they require; fetched once
#
# PLEAT_PYTHON names another python to use as it is; PLEAT_CACHE_DIR another cache folder.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${PLEAT_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-$root/build}/.cache}/pleat}
base=${PLEAT_BASE_PYTHON:-python3}
verb=${1:-}
kinds=(test)
if [ "${2:-}" = --torch ]; then
    kinds+=(torch)
    shift
fi

say() {
    printf 'python tests: %s\n' "$*" >&2
}

venv_folder() {
    printf '%s/venv-%s\n' "$cache" \
        "$("$base" -c 'import sys, platform; print("%d.%d-%s" % (*sys.version_info[:2],
            platform.machine()))')"
}

requirements_hash() {
    sha256sum <"$root/python/requirements-$1.txt" | cut -c1-16
}

# is_current VENV KIND: are the requirements of that kind installed?
is_current() {
    [ -x "$1/bin/python" ] && [ -f "$1/$2.stamp" ] &&
        [ "$(cat "$1/$2.stamp")" = "$(requirements_hash "$2")" ]
}

find_python() {
    if [ -n "${PLEAT_PYTHON:-}" ]; then
        printf '%s\n' "$PLEAT_PYTHON"
        return
    fi
    local venv kind
    venv=$(venv_folder) || return 1
    for kind in "${kinds[@]}"; do
        is_current "$venv" "$kind" || return 1
    done
    printf '%s\n' "$venv/bin/python"
}

# What is there already stays: a changed line downloads what it names and no more.
install_into() {
    local venv=$1 kind=$2 size=60\ MB
    [ "$kind" != torch ] || size=2.6\ GB
    say "installing requirements-$kind.txt into a virtual environment ($size the first time)"
    [ -x "$venv/bin/python" ] || "$base" -m venv "$venv" >&2 || return 1
    rm -f "$venv/$kind.stamp"
    "$venv/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check \
        --requirement "$root/python/requirements-$kind.txt" >&2 || return 1
    requirements_hash "$kind" >"$venv/$kind.stamp"
}

make_venv() {
    find_python && return
    local venv kind
    venv=$(venv_folder) || return 1
    mkdir -p "$cache"
    exec 9>"$cache/venv.lock"
    flock 9
    for kind in "${kinds[@]}"; do
        is_current "$venv" "$kind" || install_into "$venv" "$kind" || {
            say "NOT INSTALLED (is there a network?): tests that need it will be skipped"
            return 1
        }
    done
    printf '%s\n' "$venv/bin/python"
}

run_python() {
    local python
    if ! python=$(find_python); then
        say "SKIPPED ${CI:+in CI, }for want of requirements-${kinds[-1]}.txt: run ./dev venv" \
            "${kinds[1]:+--torch}"
        exit 77
    fi
    exec "$python" "$@"
}

# Whoever comes second finds the folder in place, and leaves it.
fetch() {
    local folder work python
    folder=$cache/$(printf '%s+' "$@" | sed 's/==/-/g; s/+$//')
    if [ ! -d "$folder" ]; then
        python=$(find_python) || python=$base
        mkdir -p "$cache"
        work=$(mktemp -d "$cache/fetch.XXXXXX")
        "$python" -m pip install --quiet --disable-pip-version-check --no-deps --ignore-installed \
            --only-binary :all: --no-cache-dir --prefix "$work" "$@" >&2 || {
            rm -rf "$work"
            return 1
        }
        mv -T "$work" "$folder" 2>/dev/null || rm -rf "$work"
    fi
    printf '%s\n' "$folder"
}

case "$verb" in
make) make_venv ;;
find) find_python ;;
run) run_python "${@:2}" ;;
fetch) fetch "${@:2}" ;;
*)
    sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
