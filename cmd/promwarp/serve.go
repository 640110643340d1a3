package main

import (
	"context"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
)

func init() { commands = append(commands, serveCommand) }

// serveCommand declares promwarp serve.
func serveCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("serve", "Answer Prometheus's HTTP API, remote read included, from an upstream Prometheus or a data directory.")
	var f config.Flags
	f.Add(cmd, true)
	return cmd.FullCommand(), func(ctx context.Context) error {
		s, err := f.Load()
		if err != nil {
			return err
		}
		logger, err := config.NewLogger(s.Log, nil)
		if err != nil {
			return config.Usage(err)
		}
		cfg := server.Config{Settings: s, Logger: logger}
		if f.File != "" {
			cfg.Reload = f.Load
		}
		logger.Info("starting promwarp", "version", version.Info(), "build", version.BuildContext())
		srv, err := server.New(cfg)
		if err != nil {
			return f.Locate(err)
		}
		go footprint.PaceCollector(ctx)
		return srv.Run(ctx)
	}
}
