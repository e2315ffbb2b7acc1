#!/usr/bin/env bash
# pleat-runtime - run a PyTorch program on a simulated GPU: its memory behaves as it would, its
# kernels compute nothing.
#
#   pleat-runtime [OPTION...] PROGRAM [ARGUMENT...]        PROGRAM: python3 train.py, torchrun, ...
#   pleat-runtime --fit [OPTION...] PROGRAM [ARGUMENT...]  the least device that it needs
#
#   --memory SIZE        memory of each device, such as 80G or 139.8G; default 80G
#   --card NAME          the same by the name of a card or GPU: what a 24GB, 80GB, L4, ... really has
#   --context SIZE       of it the driver keeps for each process's context on a device; default 500M,
#                        0 for none
#   --compute M.N        compute capability; default 9.0 (PyTorch sizes its workspaces by it)
#   --devices N          number of devices; default 1
#   --allocator NAME     native, expandable or async: PyTorch's own three; or pleat, for each Python
#                        that PROGRAM starts; default: what the program or PYTORCH_CUDA_ALLOC_CONF
#                        says
#   --fit                run PROGRAM again and again, for the least device on which it completes under
#                        each allocator; --allocator takes a list (default native,expandable,pleat)
#   --step SIZE          with --fit: sizes are multiples of it; default 1G. --memory is the largest
#                        size that is tried then, by default 1024G
#   --check              find mistakes with streams and memory (docs/check.md): each is told at the end,
#                        and then the exit status is 3 where the program's own is 0
#   --json FILE          with --check: write what was found, one JSON object for each process
#   --html FILE          with --check: write what was found as a page, with the lines of code
#   --contents           back device memory with host memory, so that copies keep their bytes;
#                        else what comes from the device is zeros
#   --sim KEY:VALUE,...  further keys of the simulator (pleat_sim.h)
#   --report FILE        write what the run came to as JSON, instead of as text on stderr
#   --quiet              say nothing at the end; with --fit, nothing of single runs
#   --version            print the version
#
# The exit status is the program's; of --fit 0, or 1 if the program completes nowhere under one of
# the allocators; of --check the program's, or 3 if there is a finding. docs/runtime.md says what is simulated and what is not.
set -euo pipefail

readonly cards='@PLEAT_CARDS@' # NAME=MIB ...: bench/base/cards.c
readonly gpus='@PLEAT_GPUS@'   # likewise, by the names of GPUs; some have two sizes

usage() {
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d'
}

fail() {
    printf 'pleat-runtime: %s\n' "$1" >&2
    exit 2
}

# say COMMAND...: end with what it prints.
say() {
    "$@" 2>/dev/null || fail "cannot write to standard output"
    exit 0
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
    3) fail "$1: $2 could mean powers of 1,000 or of 1,024 bytes: write ${2%?} for 1,024, or the number of bytes; a card of that name is --card $2" ;;
    *) fail "$1 takes a size such as 80G, not $2" ;;
    esac
}

# card_bytes NAME: what a card has in all, the context included.
card_bytes() {
    local name=${1//[[:space:]]/} card mib=''
    name=${name^^}
    for card in $cards $gpus; do
        if [ "${card%=*}" = "$name" ] || [ "${card%=*}" = "${name}B" ]; then
            [ -z "$mib" ] || fail "--card: cards $1 have several sizes: give the size"
            mib=${card#*=}
        fi
    done
    name=$(sed 's/=[0-9]*//g; s/ /, /g' <<<"$cards")
    [ -n "$mib" ] || fail "--card: there is no card $1, but $name; or by a GPU: L4, RTX 4090, H100"
    printf '%s\n' $((mib << 20))
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

# check_program: is it one that can be started? Before any search or check, and in plain words.
check_program() {
    local hint=''
    command -v -- "${program[0]}" >/dev/null && return
    case ${program[0]} in *.py) hint=": did you mean python3 ${program[0]}?" ;; esac
    fail "there is no program ${program[0]}$hint"
}

# ---- one run ----

# go_under_pleat: the Pythons beneath have pleat by their .pth file.
go_under_pleat() {
    export PLEAT_TORCH_INSTALL=1 PLEAT_RUNTIME_ALLOCATOR=pleat # the runtime checks the latter
    put_runner pleat.torch
}

# put_runner MODULE: put `-m MODULE` before the script or module in `program`, if there is one: so a
# folder in PYTHONPATH will do where the package is not installed.
put_runner() {
    local i=0 n=${#program[@]} word is_launcher=0 is_python=0
    case " ${program[*]} " in *' -m pleat.torch '*) return ;; esac
    word=$(basename "${program[0]}")
    case $word in
    torchrun) is_launcher=1 ;;
    python | python[0-9]*) is_python=1 ;;
    esac
    if ((is_python)); then
        for ((i = 1; i < n; i++)); do
            case ${program[i]} in
            -[WX]) i=$((i + 1)) ;;
            -m)
                case ${program[i + 1]-} in torch.distributed.run | torch.distributed.launch)
                    is_launcher=1
                    i=$((i + 1))
                    ;;
                esac
                break
                ;;
            -c | -) i=$n ;;
            -*) ;;
            *) break ;;
            esac
        done
    fi
    if ((is_launcher)); then # its own options may have values: the script is a file of Python
        for ((i++; i < n; i++)); do
            case ${program[i]} in -m | --module | *.py) break ;; esac
        done
        [ "${program[i]-}" != --module ] || program[i]=-m
    fi
    if ((i < n && is_python + is_launcher > 0)); then
        program=("${program[@]:0:i}" -m "$1" "${program[@]:i}")
    fi
}

# run BYTES ALLOCATOR REPORT: become the program, on a device of that size. ALLOCATOR '': as it is.
run() {
    local settings=''
    case $2 in
    '') ;;
    native) settings=backend:native ;;
    expandable) settings=expandable_segments:True ;;
    async) settings=backend:cudaMallocAsync ;;
    pleat) go_under_pleat ;;
    esac
    if [ -n "$settings" ]; then
        unset PYTORCH_ALLOC_CONF # it would come before the other name
        unset PLEAT_TORCH_INSTALL PLEAT_RUNTIME_ALLOCATOR
        export PYTORCH_CUDA_ALLOC_CONF=$settings
    fi
    if [ -n "$findings" ]; then
        [ "$2" = pleat ] || put_runner pleat.check
        # Finished work races with nothing: it lasts for whole steps, unless the user says how long.
        case $more, in *,depth:*) ;; *) more+=,depth:65536 ;; esac
    fi
    export PLEAT_SIM="capacity:$1,context:$context,compute:$compute,devices:$devices$contents$more"
    export PLEAT_RUNTIME_REPORT=$3
    export LD_PRELOAD="$runtime${LD_PRELOAD:+:$LD_PRELOAD}"
    exec "${program[@]}"
}

# ---- a check ----

# check: run the program, each of whose Pythons leaves what it found in a folder.
check() {
    local status=0 n
    findings=$(mktemp -d)
    trap 'rm -rf "$findings"' EXIT
    export PLEAT_TORCH_CHECK=$findings
    (run "$memory" "${allocators[0]-}" "$report") || status=$?
    if ! compgen -G "$findings/*.json" >/dev/null; then
        ((status > 0)) || status=2
        (fail 'nothing was checked: no Python with torch and the package pleat came to its end') ||
            exit "$status"
    fi
    if [ -n "$json" ]; then
        cat "$findings"/*.json >"$json" || fail "$json cannot be written"
    fi
    if [ -n "$html" ]; then
        cat "$findings"/*.html >"$html" || fail "$html cannot be written"
    fi
    n=$(sed -n 's/^{"findings_found": \([0-9]*\),.*/\1/p' "$findings"/*.json | awk '{ n += $1 } END { print n }')
    [ "$status" != 0 ] || [ "$n" = 0 ] || status=3
    exit "$status"
}

# ---- the least device ----

say_size() {
    if (($1 % (1 << 30) == 0)); then
        printf '%sG' $(($1 >> 30))
    elif (($1 % (1 << 20) == 0)); then
        printf '%sM' $(($1 >> 20))
    else
        printf '%s' "$1"
    fi
}

say_run() {
    [ "$report" = 0 ] || printf 'pleat-runtime: %s\n' "$1" >&2
}

# completes ALLOCATOR STEPS: does the program complete there? Sets `held` to what the report says. A
# failure that no word of its output explains by memory sets `trouble` instead.
completes() {
    local status=0 began=$SECONDS bytes=$(($2 * step)) why='completes'
    trouble=''
    (run "$bytes" "$1" 1) >"$output" 2>&1 </dev/null || status=$?
    held=$(sed -n 's/^pleat_runtime: device .* held \([0-9.]*\) GiB at most.*/\1/p' "$output" |
        sort -n | tail -n 1)
    if [ "$status" = 130 ]; then
        exit 130
    elif [ "$status" != 0 ] && grep -qiE "$short" "$output"; then
        why='runs out of memory'
    elif [ "$status" != 0 ]; then
        trouble="exit status $status on $(say_size "$bytes"), and not for want of memory"
        ! grep -qE "No module named 'pleat'|uses CUDA without pleat" "$output" ||
            trouble='this Python lacks pleat: pip install . in its repository'
        why=$trouble
    fi
    say_run "$1 on $(say_size "$bytes"): $why${held:+; held $held GiB} ($((SECONDS - began)) s)"
    [ "$status" = 0 ]
}

# search ALLOCATOR: sets `least` to the fewest steps on which it completed, next to `lo`, on which it
# did not (0: there is no smaller size). `guess`: where to begin, 0 = what it holds on the largest.
# Each of the two is a run of this search. False: it completes nowhere, or `trouble`.
search() {
    local far=1 next
    lo=0
    completes "$1" "$most" || return
    least=$most
    roomy=$held
    next=$guess
    if ((next == 0)); then
        next=$(awk -v gib="${held:-0}" -v step="$step" 'BEGIN {
            steps = gib * 2 ^ 30 / step
            printf "%d\n", int(steps) + (steps > int(steps))
        }')
    fi
    while ((least - lo > 1)); do
        if ((next <= lo || next >= least)); then
            next=$(((lo + least) / 2))
        fi
        if ((next * step <= own)); then # the context alone is more
            lo=$next
        elif completes "$1" "$next"; then
            least=$next
            next=$((least - far))
        elif [ -n "$trouble" ]; then
            return 1
        else
            lo=$next
            next=$((lo + far))
        fi
        far=$((far * 2))
    done
}

# card_of BYTES: the smallest card that has as much.
card_of() {
    local card
    for card in $cards; do
        if ((${card#*=} << 20 >= $1)); then
            printf '%s' "${card%=*}"
            return
        fi
    done
    printf 'none'
}

row() {
    printf '%-10s  %6s  %8s  %6s  %s\n' "$@"
}

# fit: searches for each allocator, the last one first, since it most likely needs least, and what
# one needs is where the next search begins.
fit() {
    local i name rows=() objects=() status=0 fails
    guess=0
    for ((i = ${#allocators[@]} - 1; i >= 0; i--)); do
        name=${allocators[i]}
        if search "$name"; then
            fails=$((lo * step > own ? lo * step : 0))
            rows[i]=$(row "$name" "$(say_size $((least * step)))" \
                "$( ((fails > 0)) && say_size "$fails" || printf -- -)" \
                "$(card_of $((least * step)))" "${roomy:+$roomy GiB}")
            objects[i]=$(printf '{"allocator": "%s", "least_bytes": %s, "fails_bytes": %s, "held_gib": %s}' \
                "$name" $((least * step)) "$( ((fails > 0)) && echo "$fails" || echo null)" \
                "${roomy:-null}")
            guess=$least
        else
            status=1
            rows[i]=$(printf '%-10s  %s' "$name" \
                "${trouble:-runs out of memory on $(say_size $((most * step))), too}")
            objects[i]=$(printf '{"allocator": "%s", "least_bytes": null, "fails_bytes": %s, "held_gib": null}' \
                "$name" $((most * step)))
            [ -z "$trouble" ] || tail -n 20 "$output" >&2
        fi
    done
    { row allocator least 'fails on' card "held on $(say_size $((most * step)))" &&
        printf '%s\n' "${rows[@]}"; } 2>/dev/null || fail "cannot write to standard output"
    if [ "$report" != 1 ] && [ "$report" != 0 ]; then
        printf '%s\n' "${objects[@]}" >"$report" || fail "$report cannot be written"
    fi
    return $status
}

# What programs say when memory was short, the libraries' own words included.
readonly short='out of memory|OutOfMemoryError|MEMORY_ALLOCATION|PLEAT_ENOMEM|PLEAT_EPENDING|ALLOC_FAILED'

# check_allocators: is each of the list known?
check_allocators() {
    local name
    for name in "${allocators[@]}"; do
        case $name in
        native | expandable | async | pleat) ;;
        *) fail "--allocator takes native, expandable, async or pleat, not $name" ;;
        esac
    done
}

# refuse_environment: PLEAT_SIM would be lost, since `run` sets it by the options. Beneath another
# pleat-runtime it is that one's.
refuse_environment() {
    case ${LD_PRELOAD-} in *libpleat_runtime.so*) return ;; esac
    [ -z "${PLEAT_SIM-}" ] || fail "PLEAT_SIM=$PLEAT_SIM would have no effect, since this command sets it: unset it, and use --memory, --context, --compute, --devices, or --sim KEY:VALUE,... for other keys"
}

# ---- the command line ----

json='' html='' is_check=0 findings=''
memory=80G card='' context=500M compute=9.0 devices=1 contents='' more='' report=1 is_fit=0 step=''
allocators=() given=()
while [ $# -gt 0 ]; do
    case "$1" in
    --memory | --card | --context | --compute | --devices | --allocator | --step | --sim | --report | \
        --json | --html)
        [ $# -gt 1 ] || fail "$1 takes a value"
        case "$1" in
        --memory) memory=$2 given+=("$1") ;;
        --card) card=$2 given+=("$1") ;;
        --context) context=$2 ;;
        --compute) compute=$2 ;;
        --devices) devices=$2 ;;
        --allocator) IFS=, read -r -a allocators <<<"$2," ;;
        --step) step=$2 ;;
        --sim) more=,$2 ;;
        --report) report=$2 ;;
        --json) json=$2 ;;
        --html) html=$2 ;;
        esac
        shift 2
        ;;
    --contents) contents=,backing:memory && shift ;;
    --fit) is_fit=1 && shift ;;
    --check) is_check=1 && shift ;;
    --quiet) report=0 && shift ;;
    --help | -h) say usage ;;
    --version) say echo 'pleat-runtime @PROJECT_VERSION@' ;;
    --) shift && break ;;
    -*) fail "there is no option $1; see --help" ;;
    *) break ;;
    esac
done
[ $# -gt 0 ] || fail "which program? See --help"
program=("$@")
check_allocators
refuse_environment

[ ${#given[@]} -le 1 ] || fail "${given[0]} and ${given[1]}: which of the two?"
((is_check)) || [ -z "$json$html" ] || fail "--json and --html go with --check"
((is_fit && is_check)) && fail "--fit and --check: which of the two?"
((is_fit)) || [ -z "$step" ] || fail "--step goes with --fit"
((is_fit)) || [ ${#allocators[@]} -le 1 ] || fail "--allocator takes a list with --fit only"
((is_fit && ${#given[@]} == 0)) && memory=1024G
if [ -n "$card" ]; then
    memory=$(card_bytes "$card")
else
    memory=$(bytes_of --memory "$memory")
fi
[ "$context" = 0 ] || context=$(bytes_of --context "$context")
runtime=$(find_runtime)
((is_fit)) || check_program
if ((is_check)); then
    report=0 # what was found is enough
    check
elif ! ((is_fit)); then
    run "$memory" "${allocators[0]-}" "$report"
fi

case " ${program[*]} " in *' pleat.torch '*)
    fail "--fit runs the script with and without pleat itself: leave -m pleat.torch out" ;;
esac
step=$(bytes_of --step "${step:-1G}")
most=$((memory / step)) own=$context
((most > 0)) || fail "--step is more than the largest size that is tried"
[ ${#allocators[@]} -gt 0 ] || allocators=(native expandable pleat)
check_program
output=$(mktemp)
trap 'rm -f "$output"' EXIT
unset PYTORCH_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF # the same for every allocator
fit
