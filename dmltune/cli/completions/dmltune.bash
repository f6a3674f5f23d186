# Completion of dmltune's commands, options, spaces, names and dotted keys for bash.
_dmltune() {
    local line="${COMP_LINE:0:COMP_POINT}" word last prefix=""
    last="${line##*[[:space:]]}"
    # readline replaces what follows the last = only, unless = does not separate words
    [[ $last == *=* && $COMP_WORDBREAKS == *=* ]] && prefix="${last%=*}="
    COMPREPLY=()
    while IFS= read -r word; do
        [[ -n $word ]] && COMPREPLY+=("${word#"$prefix"}")
    done < <("${COMP_WORDS[0]}" completion --words-of "$line" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o default -F _dmltune dmltune
