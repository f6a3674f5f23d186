#compdef dmltune
# Completion of dmltune's commands, options, spaces, names and dotted keys for zsh.
_dmltune() {
    local -a found open closed
    local line="${(j: :)words[1,CURRENT-1]} $PREFIX" word
    found=("${(@f)$(${words[1]} completion --words-of "$line" 2>/dev/null)}")
    for word in $found; do
        if [[ $word == *= ]]; then open+=("$word"); elif [[ -n $word ]]; then closed+=("$word"); fi
    done
    if (( ${#open} + ${#closed} == 0 )); then
        _files
        return
    fi
    (( ${#open} )) && compadd -S '' -- $open
    (( ${#closed} )) && compadd -- $closed
}
if [[ ${funcstack[1]-} == _dmltune ]]; then
    _dmltune "$@"
else
    compdef _dmltune dmltune
fi
