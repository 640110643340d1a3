_promwarp() {
    local word="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" --completion-bash "${COMP_WORDS[@]:1:COMP_CWORD}")" -- "$word"))
}
complete -o default -F _promwarp promwarp
