package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/route"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/notifications"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/remoteread/upstream"
)

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
