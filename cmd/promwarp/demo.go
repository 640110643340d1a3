package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/engine/compare"
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

	same, err := compareDemo(ctx, data, set, stdout)
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

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var g errgroup.Group
	for _, run := range []func(context.Context) error{srv.Run, data.feed} {
		g.Go(func() error {
			defer cancel()
			return run(ctx)
		})
	}
	return g.Wait()
}

// demoQueries are what the demo compares: a dashboard's usual queries.
var demoQueries = []string{
	`sum by (job) (rate(http_requests_total[5m]))`,
	`sum by (job, code) (increase(http_requests_total[1h]))`,
	`sum by (job) (rate(http_requests_total{code=~"5.."}[5m])) / sum by (job) (rate(http_requests_total[5m]))`,
	`histogram_quantile(0.99, sum by (le, job) (rate(http_request_duration_seconds_bucket[5m])))`,
	`topk(5, sum by (instance) (rate(http_requests_total[5m])))`,
	`avg by (job, type) (node_memory_bytes)`,
	`quantile by (job) (0.9, avg_over_time(node_memory_bytes[1h]))`,
	`avg by (instance) (rate(node_cpu_seconds_total{mode!="idle"}[5m]))`,
	`sum by (namespace) (kube_pod_memory_working_set_bytes)`,
}

// demoStep is the resolution of the demo's queries.
const demoStep = time.Minute

// compareDemo asks Prometheus and promwarp each query, prints a table, and says whether all answers were the same.
func compareDemo(ctx context.Context, data *demoData, set config.Settings, stdout io.Writer) (bool, error) {
	fmt.Fprintf(stdout, "\n%d queries over %s at a step of %s; times in ms. Both are asked over HTTP; Prometheus\nreads its own TSDB, promwarp fetches from it. First is with an empty cache, repeated the\nmedian of three.\n\n",
		len(demoQueries), model.Duration(data.end.Sub(data.start)), model.Duration(demoStep))
	var rows []compare.Row
	same := true
	for _, q := range demoQueries {
		row, err := measureDemo(ctx, data, set, q)
		if err != nil {
			return false, fmt.Errorf("%s: %w", q, err)
		}
		same = same && row.Verdict == compare.Same
		rows = append(rows, row)
	}
	if err := reportComparison(stdout, rows, 0, terminal.StyleOf(stdout)); err != nil {
		return false, err
	}
	summarizeComparison(stdout, rows, terminal.StyleOf(stdout))
	return same, nil
}

// measureDemo compares one query, on a promwarp of its own so that nothing is
// cached at first.
func measureDemo(ctx context.Context, data *demoData, set config.Settings, query string) (compare.Row, error) {
	flags := client.Flags{Timeout: time.Duration(set.Query.Timeout)}
	prometheus, err := flags.Client("upstream", set.Upstream.URL)
	if err != nil {
		return compare.Row{}, err
	}
	promwarp, stop, err := client.Embed(set, nil, promslog.NewNopLogger())
	if err != nil {
		return compare.Row{}, err
	}
	defer stop()
	form := url.Values{
		"query": {query}, "start": {stamp(data.start)}, "end": {stamp(data.end)},
		"step": {strconv.FormatFloat(demoStep.Seconds(), 'f', -1, 64)},
	}
	row, err := compare.Measure(ctx, side{Client: prometheus}.ask(client.Ranged, form), side{Client: promwarp}.ask(client.Ranged, form),
		compare.Rounds{Prometheus: 1, Repeated: 3})
	row.Query, row.Remembered = query, err == nil && remembers(ctx, promwarp, form)
	return row, err
}
