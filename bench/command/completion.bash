# Completion of `pleat` and `pleat-runtime` in bash. Words and options come from the commands' own
# --help, so this file needs no updates.

# _pleat_words COMMAND...: the words that may follow in a list of commands.
_pleat_words() {
    "$@" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z ]*[a-z]\)  .*/\1/p'
}

# _pleat_options COMMAND...: the command's long options. An option with a value ends in =.
_pleat_options() {
    "$@" --help 2>/dev/null | sed -nE 's/^ +(-.(, | [A-Z]+, ))?(--[a-z-]+)(=?).*/\3\4/p'
}

_pleat() {
    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[0]} line
    local words=() options=()
    COMPREPLY=()
    # The words of the command before the cursor, at most two: bench pairs.
    if ((COMP_CWORD > 1)); then
        words=("${COMP_WORDS[1]}")
        if [ "${COMP_WORDS[1]}" = bench ] && ((COMP_CWORD > 2)); then
            words+=("${COMP_WORDS[2]}")
        fi
    fi
    if [[ $current == -* ]]; then
        mapfile -t options < <(_pleat_options "$command" "${words[@]}")
        mapfile -t COMPREPLY < <(compgen -W "${options[*]}" -- "$current")
        [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
    elif ((COMP_CWORD == 1)); then
        line=$(_pleat_words "$command" | cut -d ' ' -f 1 | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "help $line" -- "$current")
    elif ((COMP_CWORD == 2)) && [[ ${words[0]} == bench ]]; then
        line=$(_pleat_words "$command" bench | sed -n 's/^bench //p')
        mapfile -t COMPREPLY < <(compgen -W "$line" -- "$current")
    elif ((COMP_CWORD == 2)) && [[ ${words[0]} == help ]]; then
        line=$(_pleat_words "$command" | cut -d ' ' -f 1 | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$line" -- "$current")
    else # a work: a file, or the name of a bundled trace or of a generator
        line=$("$command" works --json 2>/dev/null |
            sed -n 's/.*"name": *"\([^"]*\)".*/\1/p')
        mapfile -t COMPREPLY < <(compgen -f -W "$line" -- "$current")
    fi
}

_pleat_runtime() {
    local current=${COMP_WORDS[COMP_CWORD]} options
    if [[ $current == -* ]]; then
        options=$(_pleat_options "${COMP_WORDS[0]}")
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -c -- "$current")
    fi
}

complete -F _pleat pleat
complete -F _pleat_runtime pleat-runtime
