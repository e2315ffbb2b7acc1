#!/usr/bin/env bash
# pleat-runtime - run a PyTorch program on a simulated GPU: its memory behaves as it would, its
# kernels compute nothing.
#
#   pleat-runtime [OPTION...] PROGRAM [ARGUMENT...]        PROGRAM: python3 train.py, torchrun, ...
#
#   --memory SIZE        memory of each device, such as 80G or 139.8G; default 80G
#   --context SIZE       of it the driver keeps for each process's context on a device; default 500M,
#                        0 for none
#   --compute M.N        compute capability; default 9.0 (PyTorch sizes its workspaces by it)
#   --devices N          number of devices; default 1
#   --allocator NAME     native, expandable or async: PyTorch's own three; default: what the
#                        program or PYTORCH_CUDA_ALLOC_CONF says. For pleat run PROGRAM as
#                        `python3 -m pleat.torch train.py`
#   --contents           back device memory with host memory, so that copies keep their bytes;
#                        else what comes from the device is zeros
#   --sim KEY:VALUE,...  further keys of the simulator (pleat_sim.h)
#   --report FILE        write what the run came to as JSON, instead of as text on stderr
#   --quiet              say nothing at the end
#   --version            print the version
#
# The exit status is the program's. docs/runtime.md says what is simulated and what is not.
set -euo pipefail

usage() {
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d'
}

fail() {
    printf 'pleat-runtime: %s\n' "$1" >&2
    exit 2
}

# bytes_of OPTION SIZE: 139.8G as bytes, since the simulator takes whole numbers. The rules are those
# of `pleat --memory`: one below 2 MiB needs a unit.
bytes_of() {
    local status=0
    awk -v text="$2" 'BEGIN {
        if (text ~ /^([0-9]+\.?[0-9]*|\.[0-9]+)[KMGTkmgt][Bb]$/) exit 3
        if (text !~ /^([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTkmgt](iB)?|B)?$/) exit 1
        number = text
        sub(/[A-Za-z]+$/, "", number)
        unit = toupper(substr(text, length(number) + 1, 1))
        power = unit == "" ? 0 : index("KMGT", unit)
        if (power == 0 && number ~ /\./) exit 1
        bytes = number * 1024 ^ power
        if (bytes < 1) exit 1
        if (unit == "" && bytes < 2097152) exit 2
        printf "%.0f\n", bytes
    }' || status=$?
    case $status in
    0) ;;
    2) fail "$1: $2 lacks a unit, as in 80G or 512M; $2B means bytes" ;;
    3) fail "$1: $2 could mean powers of 1,000 or of 1,024 bytes: write ${2%?} for 1,024, or the number of bytes" ;;
    *) fail "$1 takes a size such as 80G, not $2" ;;
    esac
}

find_runtime() {
    local here name
    here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
    for name in "$here" "$here"/../lib "$here"/../lib/*; do
        if [ -f "$name/libpleat_runtime.so" ]; then
            (cd "$name" && printf '%s/libpleat_runtime.so\n' "$PWD")
            return
        fi
    done
    fail "there is no libpleat_runtime.so beside $here"
}

allocator_settings() {
    case "$1" in
    native) printf 'backend:native' ;;
    expandable) printf 'expandable_segments:True' ;;
    async) printf 'backend:cudaMallocAsync' ;;
    *) fail "--allocator takes native, expandable or async, not $1" ;;
    esac
}

memory=80G context=500M compute=9.0 devices=1 allocator='' contents='' more='' report=1
while [ $# -gt 0 ]; do
    case "$1" in
    --memory | --context | --compute | --devices | --allocator | --sim | --report)
        [ $# -gt 1 ] || fail "$1 takes a value"
        case "$1" in
        --memory) memory=$2 ;;
        --context) context=$2 ;;
        --compute) compute=$2 ;;
        --devices) devices=$2 ;;
        --allocator) allocator=$2 ;;
        --sim) more=,$2 ;;
        --report) report=$2 ;;
        esac
        shift 2
        ;;
    --contents) contents=,backing:memory && shift ;;
    --quiet) report=0 && shift ;;
    --help | -h) usage && exit 0 ;;
    --version) echo 'pleat-runtime @PROJECT_VERSION@' && exit 0 ;;
    --) shift && break ;;
    -*) fail "there is no option $1; see --help" ;;
    *) break ;;
    esac
done
[ $# -gt 0 ] || fail "which program? See --help"

memory=$(bytes_of --memory "$memory")
[ "$context" = 0 ] || context=$(bytes_of --context "$context")
runtime=$(find_runtime)
if [ -n "$allocator" ]; then
    settings=$(allocator_settings "$allocator")
    export PYTORCH_CUDA_ALLOC_CONF=$settings
fi
export PLEAT_SIM="capacity:$memory,context:$context,compute:$compute,devices:$devices$contents$more"
export PLEAT_RUNTIME_REPORT=$report
export LD_PRELOAD="$runtime${LD_PRELOAD:+:$LD_PRELOAD}"
exec "$@"
