# Completion of dmltune's commands, options, spaces, names and dotted keys for fish.
function __dmltune_words
    set -l words (commandline -opc)
    $words[1] completion --words-of (commandline -cp | string collect) 2>/dev/null | string match -v ''
end
complete -c dmltune -f -a '(__dmltune_words; or __fish_complete_path (commandline -ct))'
