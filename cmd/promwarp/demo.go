package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/features"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/api/guard"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/dataset"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/remoteread/upstream"
)

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
	cmd.Flag("web.listen-address", "Address on which promwarp listens.").Default("127.0.0.1:9201").StringVar(&o.listen)
	renamed(cmd, "listen", "web.listen-address", &o.listen)
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
	if _, err := net.ResolveTCPAddr("tcp", o.listen); err != nil {
		return config.Usagef("--web.listen-address %s: %w", o.listen, err)
	}
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

	dir := o.data
	if dir == "" {
		if dir, err = os.MkdirTemp("", "promwarp-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	data, err := openDemoData(ctx, o, dir, stderr)
	if err != nil {
		return interruption(ctx, err)
	}
	defer func() { err = errors.Join(err, data.db.Close()) }()
	_, stop := startDemoPrometheus(upstream, data.db, logger)
	defer stop()

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
	return serveDemo(ctx, srv, set.Upstream.URL, data, stdout)
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
func serveDemo(ctx context.Context, srv *server.Server, upstream string, data *demoData, stdout io.Writer) error {
	fmt.Fprintf(stdout, `
promwarp keeps serving this data until you press Ctrl-C.

  Browser     %[1]s/#/query?from=now-1d
  Grafana     add a Prometheus data source with the URL %[1]s
  Prometheus  remote_read: [{url: %[1]s%[2]s, read_recent: true}]
  curl        curl '%[1]s/api/v1/query?query=sum+by+(job)+(rate(http_requests_total[5m]))'

The Prometheus that it reads from is at %[3]s
`, srv.URL(), config.ReadPath, upstream)
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
	return same, reportComparison(stdout, rows, 0)
}

// measureDemo compares one query, on a promwarp of its own so that nothing is
// cached at first.
func measureDemo(ctx context.Context, data *demoData, set config.Settings, query string) (compare.Row, error) {
	flags := client.Flags{Timeout: time.Duration(set.Query.Timeout)}
	prometheus, err := flags.Client("upstream", set.Upstream.URL)
	if err != nil {
		return compare.Row{}, err
	}
	promwarp, stop, err := server.Embed(set, promslog.NewNopLogger())
	if err != nil {
		return compare.Row{}, err
	}
	defer stop()
	path, form := client.Form(query, data.start, data.end, demoStep)
	row, err := compare.Measure(ctx, prometheus.Side(path, form, nil), promwarp.Side(path, form, nil),
		compare.Rounds{Prometheus: 1, Repeated: 3})
	row.Query, row.Remembered = query, err == nil && remembers(ctx, promwarp, form)
	return row, err
}

// demoData is the data set of a demo in an embedded Prometheus TSDB.
type demoData struct {
	db         *tsdb.DB
	start, end time.Time
	generator  *dataset.Generator // what comes next; nil for data of an earlier time
}

// openDemoData generates the data set in dir, or opens the one that is there.
func openDemoData(ctx context.Context, o demoOptions, dir string, stderr io.Writer) (*demoData, error) {
	d := &demoData{}
	exists, err := holdsBlocks(dir)
	if err == nil && !exists {
		err = d.generate(ctx, o, dir, stderr)
	}
	if err != nil {
		return nil, err
	}
	opts := tsdb.DefaultOptions()
	opts.RetentionDuration = 0 // keeps all
	if d.db, err = tsdb.Open(dir, promslog.NewNopLogger(), nil, opts, nil); err != nil {
		return nil, fmt.Errorf("open data in %s: %w", dir, err)
	}
	d.db.DisableCompactions() // so that measurements are undisturbed
	if exists {
		blocks := d.db.Blocks()
		if len(blocks) == 0 {
			err := fmt.Errorf("the blocks in %s cannot be read; remove the directory to generate them again", dir)
			return nil, errors.Join(err, d.db.Close())
		}
		d.start = time.UnixMilli(blocks[0].MinTime()).Truncate(time.Minute)
		d.end = time.UnixMilli(blocks[len(blocks)-1].MaxTime()).Truncate(time.Minute)
	}
	return d, nil
}

// generate fills dir with a data set that ends now.
func (d *demoData) generate(ctx context.Context, o demoOptions, dir string, stderr io.Writer) error {
	d.end = time.Now().Truncate(time.Minute)
	d.start = d.end.Add(-time.Duration(o.hours) * time.Hour)
	var err error
	d.generator, err = dataset.New(dataset.Options{Start: d.start.UnixMilli(), End: d.end.UnixMilli(), Series: o.series, Seed: 1})
	if err != nil {
		return err
	}
	p := terminal.NewProgress(stderr, true)
	begin := time.Now()
	err = d.generator.WriteBlocks(ctx, dir, d.end.UnixMilli(), func(part float64) {
		p.Show("generating data: %.0f %%", 100*part)
	})
	p.Clear()
	if err != nil {
		return err
	}
	stats := d.generator.Stats()
	fmt.Fprintf(stderr, "generated %d series with %.1f million samples in %.1f s\n", stats.Series, float64(stats.Samples)/1e6, time.Since(begin).Seconds())
	return nil
}

// holdsBlocks says whether there are blocks in dir. A directory with anything
// else in it is an error: it is not the demo's to fill.
func holdsBlocks(dir string) (bool, error) {
	metas, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	if err != nil {
		return false, config.Usagef("--data %s: %w", dir, err)
	}
	if len(metas) > 0 {
		return true, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, config.Usage(err)
	}
	if len(entries) > 0 {
		return false, config.Usagef("--data %s: the directory is not empty and holds no blocks; name a new one", dir)
	}
	return false, nil
}

// feed adds samples as time goes by, until ctx is done.
func (d *demoData) feed(ctx context.Context) error {
	if d.generator == nil {
		<-ctx.Done()
		return nil
	}
	d.db.EnableCompactions()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		err := d.generator.Write(ctx, d.db, time.Now().UnixMilli())
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("add new samples: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// plainEngine is Prometheus's engine, whose plans are not asked for here.
type plainEngine struct{ *promql.Engine }

// NewQuery implements api.Engine.
func (e plainEngine) NewQuery(ctx context.Context, r engine.Request) (promql.Query, error) {
	return r.By(ctx, e.Engine)
}

// Explain implements api.Engine.
func (plainEngine) Explain(context.Context, engine.Request, bool) (*plan.Explanation, error) {
	return nil, errors.New("the demo's Prometheus has no plans")
}

// Cost implements api.Engine.
func (plainEngine) Cost(context.Context, engine.Request) (*plan.Cost, error) {
	return nil, errors.New("the demo's Prometheus does not know what queries cost")
}

// startDemoPrometheus serves db on l, with the handler h, until stop: a Prometheus that does not
// scrape, its TSDB and its engine behind promwarp's doors, remote read included.
func startDemoPrometheus(l net.Listener, db *tsdb.DB, logger *slog.Logger) (h http.Handler, stop func()) {
	set := config.Default()
	limits, web := set.Query, set.Web
	parse := parser.NewParser(upstream.Features(0).Parser())
	stock := promql.NewEngine(promql.EngineOpts{
		Logger:                   logger,
		MaxSamples:               limits.MaxSamples,
		Timeout:                  time.Duration(limits.Timeout),
		LookbackDelta:            time.Duration(limits.LookbackDelta),
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		Parser:                   parse,
	})
	origin, _ := web.OriginRegexp()
	known := features.NewRegistry()
	parse.RegisterFeatures(known)
	start := time.Now()
	doors := api.New(api.Options{
		Engine: plainEngine{stock}, Queryable: db, Parser: parse, Logger: logger, CORSOrigin: origin, Features: known.Get,
		Config:         func() promconfig.Config { return promconfig.DefaultConfig },
		RuntimeInfo:    func() api.RuntimeInfo { return api.NewRuntimeInfo(start) },
		ExternalLabels: labels.EmptyLabels,
		MaxBodyBytes:   int64(web.MaxBodyBytes), BodyTimeout: time.Duration(web.ReadTimeout), WriteTimeout: time.Duration(web.WriteTimeout),
		Timeout: time.Duration(limits.Timeout),
		Metrics: guard.NewMetrics(nil), Gatherer: prometheus.NewRegistry(),
	})
	m := http.NewServeMux()
	m.Handle("/api/v1/", doors)
	for _, own := range []string{"admin/", "query_cost", "query_range_cost", "status/cache", "status/gpus", "status/queries"} { // which no Prometheus has
		m.Handle("/api/v1/"+own, http.NotFoundHandler())
	}
	srv := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the demo's Prometheus stopped", "err", err)
		}
	})
	return m, func() {
		_ = srv.Close()
		serving.Wait()
		_ = stock.Close()
	}
}
