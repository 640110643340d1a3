// Command promwarp makes PromQL over long ranges and many series fast. It
// stands in front of a Prometheus-compatible store, or reads a local Prometheus
// data directory, and answers Prometheus's HTTP API.
package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/gpuexec/device"
)

// Exit codes of every command.
const (
	exitOK    = 0 // done
	exitError = 1 // the command was understood but failed
	exitUsage = 2 // the command line, or a file that it names, is wrong
	exitEmpty = 3 // promwarp compare had nothing to compare
)

// commands holds one function for each command of the program. It declares the
// command and its flags on app and returns the command's full name and what
// runs it. The context of run is cancelled by the first SIGINT or SIGTERM; the
// second ends the program at once.
var commands = []func(app *kingpin.Application) (name string, run func(ctx context.Context) error){
	backfillCommand, backtestCommand, compareCommand, demoCommand, completionCommand, queryCommand, explainCommand, costCommand, cacheListCommand,
	cacheDropCommand, serveCommand, checkConfigCommand,
	probeCommand("healthy", "Ask a promwarp whether it runs, for the health check of a container."),
	probeCommand("ready", "Ask a promwarp whether it takes requests, and what it has found out about its upstreams."),
	devicesCommand, versionCommand,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the program at once
	os.Exit(execute(ctx, os.Args[1:], os.Stderr))
}

// application declares all commands, and returns what runs each of them by its name.
func application() (*kingpin.Application, map[string]func(context.Context) error) {
	app := kingpin.New("promwarp", "Fast PromQL over long ranges and many series, in front of Prometheus.").UsageWriter(os.Stdout)
	declareHelp(app)
	app.Flag("version", "Show the version of this program.").Short('V').PreAction(func(*kingpin.ParseContext) error {
		if err := writeVersion(os.Stdout, device.Library); err != nil {
			return err
		}
		os.Exit(exitOK)
		return nil
	}).Bool()
	app.HelpFlag.Short('h').Help("Show this help.")
	runs := map[string]func(context.Context) error{}
	for _, declare := range commands {
		name, run := declare(app)
		runs[name] = run
	}
	return app, runs
}

// execute runs the command that args name and returns the exit code. Help and
// version are printed by kingpin, which then exits.
func execute(ctx context.Context, args []string, stderr io.Writer) int {
	app, runs := application()
	name, err := app.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "promwarp: %v; %s\n", err, meant(app, args, err))
		return exitUsage
	}
	err = runs[name](ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "promwarp %s: %v\n", name, err)
	switch {
	case errors.As(err, new(config.UsageError)):
		return exitUsage
	case errors.Is(err, errNothing):
		return exitEmpty
	}
	return exitError
}

// A release sets version.Version, Revision and BuildDate when linking. go install and go build
// leave them empty, but note the module's version, and in a clone the commit and its time.
func init() {
	info, ok := debug.ReadBuildInfo()
	if version.Version == "" {
		version.Version = "devel"
		if ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
			version.Version = info.Main.Version
		}
	}
	if version.BuildDate == "" && ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				version.BuildDate = s.Value
			}
		}
	}
}

// versionCommand declares promwarp version.
func versionCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("version", "Show the version, revision and date of this program, and whether a GPU is usable.")
	library := cmd.Flag("gpu.library", "The CUDA driver's library.").Default(device.Library).String()
	return cmd.FullCommand(), func(context.Context) error { return writeVersion(os.Stdout, *library) }
}

// writeVersion prints of which sources this program is, and whether it can use a GPU here.
func writeVersion(w io.Writer, library string) error {
	_, err := fmt.Fprintf(w, "promwarp, version %s\n  revision:  %s\n  date:      %s\n  go:        %s, %s/%s\n  GPU:       %s\n",
		version.Version, version.GetRevision(), cmp.Or(version.BuildDate, "unknown"), version.GoVersion, version.GoOS, version.GoArch, usableDevices(device.TakeInventory(library)))
	return err
}

// groups order the commands in help.
var groups = []struct {
	Title    string
	Commands []string
}{
	{"Ask", []string{"query", "explain", "cost", "compare", "backtest", "backfill"}},
	{"Serve", []string{"serve", "check config", "check ready", "check healthy"}},
	{"Look after", []string{"cache ls", "cache drop", "devices", "version"}},
	{"Try and set up", []string{"demo", "completion"}},
}

// exitCodes are told by help and by docs/commands.md.
const exitCodes = "Exit codes: 0 done, and answers agree; 1 it failed, answers differ, or alerts do not as expected; 2 the command line, or a file that it names, is wrong; 3 compare had nothing to compare."

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
