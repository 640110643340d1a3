package api

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/route"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/notifications"
	v1 "github.com/prometheus/prometheus/web/api/v1"
)

// newV1 returns the handler of Prometheus's API with promwarp's codec. Prometheus's API writes its
// description as it is made, which takes longer than all else of a start: here it is of no door, and
// that of all doors is written by another one once it is asked for.
func (a *API) newV1() http.Handler {
	api := a.prometheusAPI([]string{"none"})
	api.ClearCodecs()
	api.InstallCodec(jsonCodec{})
	doors := handlerOf(api)
	describing := sync.OnceValue(func() http.Handler { return handlerOf(a.prometheusAPI(a.described())) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == prefix+"/openapi.yaml" {
			describing().ServeHTTP(w, r)
			return
		}
		doors.ServeHTTP(w, r)
	})
}

// handlerOf returns the handler of Prometheus's API at its prefix.
func handlerOf(api *v1.API) http.Handler {
	r := route.New().WithPrefix(prefix)
	api.Register(r)
	return r
}

// prometheusAPI returns Prometheus's API over the engine and the queryable. Doors
// that need a TSDB or an appender must not be routed to it. Its description has the paths that begin
// with those described.
func (a *API) prometheusAPI(described []string) *v1.API {
	var none nothing
	return v1.NewAPI(
		translating{a.o.Engine, a},
		a.o.Queryable,
		nil, nil, // appenders
		none,
		func(context.Context) v1.ScrapePoolsRetriever { return none },
		func(context.Context) v1.TargetRetriever { return none },
		func(context.Context) v1.AlertmanagerRetriever { return none },
		a.config,
		a.o.Flags,
		v1.GlobalURLOptions{ListenAddress: a.o.ListenAddress, Host: a.o.ListenAddress, Scheme: "http"},
		func(h http.HandlerFunc) http.HandlerFunc { return h },
		nil, "", // TSDB
		false,    // admin
		false, 0, // search
		a.logger,
		func(context.Context) v1.RulesRetriever { return none },
		0, 0, 0, // of its remote read, which is not routed to
		false, // agent
		a.o.CORSOrigin,
		a.o.RuntimeInfo,
		&v1.PrometheusVersion{},
		func() []notifications.Notification { return []notifications.Notification{} },
		func() (<-chan notifications.Notification, func(), bool) { return nil, func() {}, false },
		a.o.Gatherer,
		nil,        // registerer, for remote read alone
		nil,        // stats renderer
		false, nil, // remote write
		false, false, false, // OTLP
		false, // start timestamps
		0,     // lookback, of OTLP
		false, // type and unit labels
		false, // metadata
		overrideStatus,
		a.features(),
		v1.OpenAPIOptions{Version: PrometheusVersion(), IncludePaths: described},
		a.o.Parser,
	)
}

// nothing answers for what promwarp does not have: scraping, rules, exemplars.
type nothing struct{}

func (nothing) ScrapePools() []string                       { return []string{} }
func (nothing) TargetsActive() map[string][]*scrape.Target  { return nil }
func (nothing) TargetsDropped() map[string][]*scrape.Target { return nil }
func (nothing) TargetsDroppedCounts() map[string]int        { return map[string]int{} }
func (nothing) Alertmanagers() []*url.URL                   { return nil }
func (nothing) DroppedAlertmanagers() []*url.URL            { return nil }
func (nothing) RuleGroups() []*rules.Group                  { return nil }
func (nothing) AlertingRules() []*rules.AlertingRule        { return nil }
func (nothing) ScrapePoolConfig(string) (*promconfig.ScrapeConfig, error) {
	return &promconfig.ScrapeConfig{}, nil
}

func (n nothing) ExemplarQuerier(context.Context) (storage.ExemplarQuerier, error) { return n, nil }

func (nothing) Select(int64, int64, ...[]*labels.Matcher) ([]exemplar.QueryResult, error) {
	return []exemplar.QueryResult{}, nil
}

// Nothing answers for what a server does not have that neither scrapes nor evaluates rules.
type Nothing = nothing

// RuntimeInfo describes the running program. What only a Prometheus has is left
// empty.
func RuntimeInfo(start time.Time) v1.RuntimeInfo {
	cwd, _ := os.Getwd()
	host, _ := os.Hostname()
	return v1.RuntimeInfo{
		StartTime:           start.UTC(),
		CWD:                 cwd,
		Hostname:            host,
		ServerTime:          time.Now().UTC(),
		ReloadConfigSuccess: true,
		LastConfigTime:      start.UTC(),
		GoroutineCount:      runtime.NumGoroutine(),
		GOMAXPROCS:          runtime.GOMAXPROCS(0),
		GOMEMLIMIT:          debug.SetMemoryLimit(-1),
		GOGC:                os.Getenv("GOGC"),
		GODEBUG:             os.Getenv("GODEBUG"),
	}
}

// embeddedPrometheus is the version of Prometheus that promwarp is built with,
// for builds that do not carry their module's dependencies.
const embeddedPrometheus = "v0.315.0"

// PrometheusVersion is the version of the Prometheus whose engine and API are
// inside, such as 3.15.0. Prometheus's Go module is v0.(100·major+minor).patch.
func PrometheusVersion() string {
	module := embeddedPrometheus
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/prometheus/prometheus" && strings.HasPrefix(d.Version, "v0.") {
				module = d.Version
			}
		}
	}
	return releaseOf(module)
}
