package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
)

func init() {
	commands = append(commands, checkConfigCommand, probeCommand("healthy", "Ask a promwarp whether it runs, for the health check of a container."), probeCommand("ready", "Ask a promwarp whether it takes requests, and what it has found out about its upstreams."))
}

// checkClause is the command that has those below it.
func checkClause(app *kingpin.Application) *kingpin.CmdClause {
	if c := app.GetCommand("check"); c != nil {
		return c
	}
	return app.Command("check", "Check a configuration file, or a running promwarp.")
}

// probeTimeout is the longest that probes wait for an answer unless they are told.
const probeTimeout = 5 * time.Second

// probeCommand declares promwarp check with the name of a door for probes.
func probeCommand(name, help string) func(*kingpin.Application) (string, func(context.Context) error) {
	return func(app *kingpin.Application) (string, func(context.Context) error) {
		cmd := checkClause(app).Command(name, help).HelpLong(`Examples:
  promwarp check ` + name + ` --url=http://localhost:9201
`)
		server := client.Flags{Timeout: probeTimeout}
		server.Add(cmd, "")
		return cmd.FullCommand(), func(ctx context.Context) error {
			c, err := server.Client("url", server.URL)
			if err != nil {
				return err
			}
			text, err := c.Text(ctx, "/-/"+name)
			if err == nil {
				_, err = io.WriteString(os.Stdout, text)
			}
			return err
		}
	}
}

// checkConfigCommand declares promwarp check config.
func checkConfigCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := checkClause(app).Command("config", "Check a configuration file as serve does at its start, and name all that is wrong with it.").HelpLong(`Examples:
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
		return errors.New(f.Locate(err).Error()) // no UsageError
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
