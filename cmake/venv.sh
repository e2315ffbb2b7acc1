#!/usr/bin/env bash
# The virtual environment of the Python tests, kept in a cache folder that all checkouts share.
#
#   venv.sh make          create it or bring it up to python/requirements-test.txt; prints its python
#   venv.sh find          print its python; fails where there is none that meets the requirements
#   venv.sh run ARG...    run that python; exit status 77, which ctest takes as skipped, without one
#
# PLEAT_PYTHON names another python to use as it is; PLEAT_CACHE_DIR another cache folder.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
requirements=$root/python/requirements-test.txt
cache=${PLEAT_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-$root/build}/.cache}/pleat}
base=${PLEAT_BASE_PYTHON:-python3}

say() {
    printf 'python tests: %s\n' "$*" >&2
}

venv_folder() {
    printf '%s/venv-%s\n' "$cache" \
        "$("$base" -c 'import sys, platform; print("%d.%d-%s" % (*sys.version_info[:2],
            platform.machine()))')"
}

requirements_hash() {
    sha256sum <"$requirements" | cut -c1-16
}

is_current() {
    [ -x "$1/bin/python" ] && [ -f "$1/pleat.stamp" ] &&
        [ "$(cat "$1/pleat.stamp")" = "$(requirements_hash)" ]
}

find_python() {
    if [ -n "${PLEAT_PYTHON:-}" ]; then
        printf '%s\n' "$PLEAT_PYTHON"
        return
    fi
    local venv
    venv=$(venv_folder) && is_current "$venv" && printf '%s\n' "$venv/bin/python"
}

# What is there already stays: a changed line downloads what it names and no more.
install_into() {
    local venv=$1
    say "installing the requirements into a virtual environment (2.6 GB the first time)"
    [ -x "$venv/bin/python" ] || "$base" -m venv "$venv" >&2 || return 1
    rm -f "$venv/pleat.stamp"
    "$venv/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check \
        --requirement "$requirements" >&2 || return 1
    requirements_hash >"$venv/pleat.stamp"
}

make_venv() {
    find_python && return
    local venv
    venv=$(venv_folder) || return 1
    mkdir -p "$cache"
    exec 9>"$cache/venv.lock"
    flock 9
    is_current "$venv" || install_into "$venv" || {
        say "NOT INSTALLED (is there a network?): tests that need torch will be skipped"
        return 1
    }
    printf '%s\n' "$venv/bin/python"
}

run_python() {
    local python
    if ! python=$(find_python); then
        say "SKIPPED ${CI:+in CI, }for want of torch, pytest and mypy: run ./dev venv"
        exit 77
    fi
    exec "$python" "$@"
}

case "${1:-}" in
make) make_venv ;;
find) find_python ;;
run) run_python "${@:2}" ;;
*)
    sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
