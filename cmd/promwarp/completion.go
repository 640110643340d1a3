package main

import (
	"context"
	"embed"
	"os"

	"github.com/alecthomas/kingpin/v2"
)

func init() { commands = append(commands, completionCommand) }

// scripts have promwarp itself complete the line, as kingpin's do. Packages install them.
//
//go:embed all:completions
var scripts embed.FS

// completions are the names of scripts by shell.
var completions = map[string]string{"bash": "promwarp.bash", "zsh": "_promwarp", "fish": "promwarp.fish"}

// completionCommand declares promwarp completion.
func completionCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("completion", "Print a script that has a shell complete promwarp's commands and flags.").HelpLong(`Examples:
  source <(promwarp completion bash)                             # in ~/.bashrc
  source <(promwarp completion zsh)                              # in ~/.zshrc, behind compinit
  promwarp completion fish > ~/.config/fish/completions/promwarp.fish
`)
	shell := cmd.Arg("shell", "bash, zsh or fish.").Required().Enum("bash", "zsh", "fish")
	return cmd.FullCommand(), func(context.Context) error {
		script, err := scripts.ReadFile("completions/" + completions[*shell])
		if err == nil {
			_, err = os.Stdout.Write(script)
		}
		return err
	}
}
