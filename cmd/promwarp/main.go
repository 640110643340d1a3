// Command promwarp makes PromQL over long ranges and many series fast. It
// stands in front of a Prometheus-compatible store, or reads a local Prometheus
// data directory, and answers Prometheus's HTTP API.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
)

// Exit codes of every command.
const (
	exitOK    = 0 // done
	exitError = 1 // the command was understood but failed
	exitUsage = 2 // the command line or the configuration is wrong
	exitEmpty = 3 // promwarp compare had nothing to compare
)

// commands holds one function for each command of the program. An init
// function in the command's file appends to it. The function declares the
// command and its flags on app and returns the command's full name and what
// runs it. The context of run is cancelled by the first SIGINT or SIGTERM; the
// second ends the program at once.
var commands []func(app *kingpin.Application) (name string, run func(ctx context.Context) error)

// exitCode is the exit code for the error a command returned.
func exitCode(err error) int {
	var usage config.UsageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errNothing):
		return exitEmpty
	}
	return exitError
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the program at once
	os.Exit(execute(ctx, os.Args[1:], os.Stderr))
}

// application declares all commands, and returns what runs each of them by its name.
func application() (*kingpin.Application, map[string]func(context.Context) error) {
	app := kingpin.New("promwarp", "Fast PromQL over long ranges and many series, in front of Prometheus.").UsageWriter(os.Stdout)
	app.UsageTemplate(helpTemplate).UsageFuncs(helpFuncs)
	app.Version(version.Print("promwarp"))
	app.VersionFlag.Short('V')
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
		fmt.Fprintf(stderr, "promwarp: %v; try --help\n", err)
		return exitUsage
	}
	err = runs[name](ctx)
	if err != nil {
		fmt.Fprintf(stderr, "promwarp %s: %v\n", name, err)
	}
	return exitCode(err)
}
