package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
)

func init() { commands = append(commands, demoCommand) }

// demoOptions are the flags of promwarp demo.
type demoOptions struct {
	once   bool
	series int
	hours  int
	listen string
	data   string
}

// demoCommand declares promwarp demo.
func demoCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("demo", "Generate a day of monitoring data, compare promwarp with Prometheus on it, and serve it.")
	var o demoOptions
	cmd.Flag("once", "Exit after the comparison.").BoolVar(&o.once)
	cmd.Flag("series", "About how many series to generate.").Default("6800").IntVar(&o.series)
	cmd.Flag("hours", "How many hours of samples to generate.").Default("24").IntVar(&o.hours)
	cmd.Flag("listen", "Address on which promwarp listens.").Default("127.0.0.1:9201").StringVar(&o.listen)
	cmd.Flag("data", "Directory that keeps the data for the next time; one that holds data is used as it is. Without it the data is temporary.").PlaceHolder("DIRECTORY").StringVar(&o.data)
	return cmd.FullCommand(), func(ctx context.Context) error {
		return runDemo(ctx, o, os.Stdout, os.Stderr)
	}
}

// runDemo runs the demo until it is done or ctx is.
func runDemo(ctx context.Context, o demoOptions, stdout, stderr io.Writer) (err error) {
	switch {
	case o.series < 1:
		return config.Usagef("--series must be at least 1")
	case o.hours < 1:
		return config.Usagef("--hours must be at least 1")
	}

	// Addresses come first: a generated data set is a pity to throw away.
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer upstream.Close()
	free, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	free.Close()
	set := demoSettings(o.listen, "http://"+upstream.Addr().String())
	logger, err := config.NewLogger(set.Log, stderr)
	if err != nil {
		return err
	}

	data, err := openDemoData(ctx, o, stderr)
	if err != nil {
		return interruption(ctx, err)
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	prom := startDemoPrometheus(upstream, data.db, logger)
	defer prom.Close()

	same, err := compareDemo(ctx, prom, data, set, stdout)
	if err != nil {
		return interruption(ctx, err)
	}
	if !same {
		return errors.New("answers differ; please report this with the table above")
	}
	if o.once {
		return nil
	}
	srv, err := server.New(server.Config{Settings: set, Logger: logger, Examples: demoQueries})
	if err != nil {
		return err
	}
	defer srv.Close()
	return serveDemo(ctx, srv, prom, data, stdout)
}

// interruption is the error for err: a plain one if the user wanted to stop.
func interruption(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted before the comparison was complete")
	}
	return err
}

// demoSettings are the server's settings for the demo.
func demoSettings(listen, upstream string) config.Settings {
	s := config.Default()
	s.Upstream.URL = upstream
	s.Web.ListenAddress = config.List{listen}
	s.Log.Level = "warn"
	return s
}

// serveDemo serves, and adds samples as time goes by, until ctx is done.
func serveDemo(ctx context.Context, srv *server.Server, prom *demoPrometheus, data *demoData, stdout io.Writer) error {
	running := srv.Start(ctx)
	fmt.Fprintf(stdout, `
promwarp keeps serving this data until you press Ctrl-C.

  Browser     %[1]s/#/query?from=now-1d
  Grafana     add a Prometheus data source with the URL %[1]s
  Prometheus  remote_read: [{url: %[1]s%[2]s, read_recent: true}]
  curl        curl '%[1]s/api/v1/query?query=sum+by+(job)+(rate(http_requests_total[5m]))'

The Prometheus that it reads from is at %[3]s
`, srv.URL(), config.ReadPath, prom.url)
	if data.generator != nil {
		fmt.Fprintln(stdout, "New samples arrive every 15 seconds.")
	}

	feeding, cancel := context.WithCancel(ctx)
	defer cancel()
	fed := make(chan error, 1)
	go func() { fed <- data.feed(feeding) }()
	select {
	case err := <-fed:
		return errors.Join(err, running.Stop())
	case <-running.Done:
		cancel()
		return errors.Join(running.Stop(), <-fed)
	}
}
