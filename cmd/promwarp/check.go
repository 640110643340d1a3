package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
)

func init() { commands = append(commands, checkCommand) }

// checkCommand declares promwarp check config.
func checkCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("check", "Check files.").Command("config", "Check a configuration file as serve does at its start, and name all that is wrong with it.").HelpLong(`Examples:
  promwarp check config /etc/promwarp/promwarp.yml
`)
	file := cmd.Arg("file", "The file for serve's --config.file.").Required().String()
	return cmd.FullCommand(), func(context.Context) error { return runCheck(*file, os.Stdout) }
}

// runCheck checks one file. What is wrong with it is a failure here, and no wrong use.
func runCheck(file string, stdout io.Writer) error {
	f := config.Flags{File: file}
	set, err := f.Load()
	if err == nil {
		err = server.Check(set)
	}
	if err != nil {
		return errors.New(err.Error()) // no UsageError
	}
	sources, err := set.Sources()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s is good; it reads from", file)
	for _, s := range sources {
		fmt.Fprintf(stdout, " %s", s.Name())
	}
	fmt.Fprintln(stdout)
	return nil
}
