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
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/route"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/notifications"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/internal/dataset"
	"github.com/promwarp/promwarp/remoteread/upstream"
)

// demoData is the data set of a demo in an embedded Prometheus TSDB.
type demoData struct {
	db         *tsdb.DB
	start, end time.Time
	generator  *dataset.Generator // what comes next; nil for data of an earlier time
	temporary  string             // directory to remove at the end
}

// openDemoData generates the data set, or opens the one that is in o.data.
func openDemoData(ctx context.Context, o demoOptions, stderr io.Writer) (d *demoData, err error) {
	d = &demoData{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
			d = nil
		}
	}()
	dir, exists := o.data, false
	if dir == "" {
		if d.temporary, err = os.MkdirTemp("", "promwarp-demo-"); err != nil {
			return d, err
		}
		dir = d.temporary
	} else if exists, err = holdsBlocks(dir); err != nil {
		return d, err
	}
	if !exists {
		if err := d.generate(ctx, o, dir, stderr); err != nil {
			return d, err
		}
	}

	opts := tsdb.DefaultOptions()
	opts.RetentionDuration = 0 // keeps all
	if d.db, err = tsdb.Open(dir, promslog.NewNopLogger(), nil, opts, nil); err != nil {
		return d, fmt.Errorf("open data in %s: %w", dir, err)
	}
	d.db.DisableCompactions() // so that measurements are undisturbed
	if exists {
		err = d.timesFromBlocks(dir)
	}
	return d, err
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
	stats, err := d.generator.WriteBlocks(ctx, dir, d.end.UnixMilli(), func(part float64) {
		p.Show("generating data: %.0f %%", 100*part)
	})
	p.Clear()
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "generated %d series with %.1f million samples in %.1f s\n", stats.Series, float64(stats.Samples)/1e6, time.Since(begin).Seconds())
	return nil
}

// timesFromBlocks finds the times that the data covers.
func (d *demoData) timesFromBlocks(dir string) error {
	blocks := d.db.Blocks()
	if len(blocks) == 0 {
		return fmt.Errorf("the blocks in %s cannot be read; remove the directory to generate them again", dir)
	}
	d.start = time.UnixMilli(blocks[0].MinTime()).Truncate(time.Minute)
	d.end = time.UnixMilli(blocks[len(blocks)-1].MaxTime()).Truncate(time.Minute)
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
		_, err := d.generator.Write(ctx, d.db, time.Now().UnixMilli())
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

// Close closes the data and removes it if it is temporary.
func (d *demoData) Close() error {
	var errs []error
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	if d.temporary != "" {
		errs = append(errs, os.RemoveAll(d.temporary))
	}
	return errors.Join(errs...)
}

// demoPrometheus is a Prometheus that does not scrape: its TSDB, its engine and
// its HTTP API, remote read included.
type demoPrometheus struct {
	engine *promql.Engine
	db     *tsdb.DB
	url    string
	server *http.Server
	done   chan struct{}
}

// startDemoPrometheus serves db on l until Close.
func startDemoPrometheus(l net.Listener, db *tsdb.DB, logger *slog.Logger) *demoPrometheus {
	limits := config.Default().Query
	p := &demoPrometheus{
		engine: promql.NewEngine(promql.EngineOpts{
			Logger:                   logger,
			MaxSamples:               limits.MaxSamples,
			Timeout:                  time.Duration(limits.Timeout),
			LookbackDelta:            time.Duration(limits.LookbackDelta),
			EnableAtModifier:         true,
			EnableNegativeOffset:     true,
			NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
			Parser:                   parser.NewParser(upstream.Features(0).Parser()),
		}),
		db:   db,
		url:  "http://" + l.Addr().String(),
		done: make(chan struct{}),
	}
	router := route.New().WithPrefix("/api/v1")
	p.newAPI(l.Addr().String(), logger).Register(router)
	// Prometheus's remote read answers a client that went away in the middle with a second status.
	p.server = &http.Server{Handler: router, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
	go func() {
		defer close(p.done)
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the demo's Prometheus stopped", "err", err)
		}
	}()
	return p
}

// Close stops serving. The TSDB stays open.
func (p *demoPrometheus) Close() {
	_ = p.server.Close()
	<-p.done
	_ = p.engine.Close()
}

// newAPI returns Prometheus's own API with its default limits.
func (p *demoPrometheus) newAPI(addr string, logger *slog.Logger) *v1.API {
	const (
		readSamples     = 50_000_000
		readConcurrency = 10
		readFrameBytes  = 1 << 20
	)
	start := time.Now()
	var none api.Nothing
	return v1.NewAPI(
		p.engine, p.db,
		nil, nil, // appenders
		p.db, // exemplars
		func(context.Context) v1.ScrapePoolsRetriever { return none },
		func(context.Context) v1.TargetRetriever { return none },
		func(context.Context) v1.AlertmanagerRetriever { return none },
		func() promconfig.Config { return promconfig.DefaultConfig },
		map[string]string{},
		v1.GlobalURLOptions{ListenAddress: addr, Host: addr, Scheme: "http"},
		func(h http.HandlerFunc) http.HandlerFunc { return h },
		nil, "", // TSDB, of whose statistics nobody asks here
		false,    // admin
		false, 0, // search
		logger,
		func(context.Context) v1.RulesRetriever { return none },
		readSamples, readConcurrency, readFrameBytes,
		false, // agent
		regexp.MustCompile("^(?:.*)$"),
		func() (v1.RuntimeInfo, error) { return api.RuntimeInfo(start), nil },
		&v1.PrometheusVersion{Version: api.PrometheusVersion()},
		func() []notifications.Notification { return nil },
		func() (<-chan notifications.Notification, func(), bool) { return nil, func() {}, false },
		prometheus.NewRegistry(), prometheus.NewRegistry(),
		nil,        // stats renderer
		false, nil, // remote write
		false, false, false, // OTLP
		false, // start timestamps
		0,     // lookback, of OTLP
		false, // type and unit labels
		false, // metadata
		nil,   // error codes
		nil,   // features
		v1.OpenAPIOptions{Version: api.PrometheusVersion()},
		parser.NewParser(upstream.Features(0).Parser()),
	)
}
