package main

import (
	"context"
	"io"
	"os"

	"github.com/alecthomas/kingpin/v2"
)

func init() { commands = append(commands, completionCommand) }

// completions are scripts by shell. Each has promwarp itself complete the line, as kingpin's do.
var completions = map[string]string{
	"bash": `_promwarp() {
    local word="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" --completion-bash "${COMP_WORDS[@]:1:COMP_CWORD}")" -- "$word"))
}
complete -o default -F _promwarp promwarp
`,
	"zsh": `#compdef promwarp
_promwarp() {
    local matches=($("${words[1]}" --completion-bash "${(@)words[2,CURRENT]}"))
    compadd -a matches
    if [[ $compstate[nmatches] -eq 0 && $words[CURRENT] != -* ]]; then
        _files
    fi
}
if [[ "$funcstack[1]" == _promwarp ]]; then _promwarp "$@"; else compdef _promwarp promwarp; fi
`,
	"fish": `function __promwarp_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] --completion-bash $words[2..-1]
end
complete -c promwarp -a '(__promwarp_complete)'
`,
}

// completionCommand declares promwarp completion.
func completionCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("completion", "Print a script that has a shell complete promwarp's commands and flags.").HelpLong(`Examples:
  source <(promwarp completion bash)                             # in ~/.bashrc
  source <(promwarp completion zsh)                              # in ~/.zshrc, behind compinit
  promwarp completion fish > ~/.config/fish/completions/promwarp.fish
`)
	shell := cmd.Arg("shell", "bash, zsh or fish.").Required().Enum("bash", "zsh", "fish")
	return cmd.FullCommand(), func(context.Context) error {
		_, err := io.WriteString(os.Stdout, completions[*shell])
		return err
	}
}
