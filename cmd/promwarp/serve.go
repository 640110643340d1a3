package main

import (
	"context"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"
)

func init() { commands = append(commands, serveCommand) }

// serveCommand declares promwarp serve.
func serveCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("serve", "Answer Prometheus's HTTP API, remote read included, from an upstream Prometheus or a data directory.")
	var f settingsFlags
	f.addSource(cmd)
	f.addQuery(cmd)
	f.addServer(cmd)
	f.addGPU(cmd)
	return cmd.FullCommand(), func(ctx context.Context) error {
		s, err := f.load()
		if err != nil {
			return err
		}
		logger, err := newLogger(s.Log, nil)
		if err != nil {
			return usageError{err}
		}
		cfg := serverConfig{Settings: s, Logger: logger}
		if f.file != "" {
			cfg.Reload = f.load
		}
		logger.Info("starting promwarp", "version", version.Info(), "build", version.BuildContext())
		srv, err := newServer(cfg)
		if err != nil {
			return err
		}
		go paceCollector(ctx)
		return srv.Run(ctx)
	}
}
