package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Request is a query, and how it is to be evaluated.
type Request struct {
	Storage storage.Queryable
	Options promql.QueryOpts // nil has Prometheus's defaults
	Query   string
	Start   time.Time
	End     time.Time     // of a range query
	Step    time.Duration // 0 means an instant query at Start

	Mode Mode // empty is Auto
	// Strict makes it an error rather than a warning that a forced executor cannot take all of
	// the query.
	Strict bool
	Exact  plan.Exact // empty means as exact as the engine's options say
	// Statistics asks for the statistics that Prometheus's engine counts. Executors count no samples
	// otherwise, and with results kept from earlier queries the largest number of samples held at
	// once is not known.
	Statistics bool
	// MaxSeries and MaxSamples are the most that the query may read, added up over its selectors; 0 sets
	// no limit. A query that reads more fails with a *CeilingError.
	MaxSeries, MaxSamples int64
	// Progress is told how far the evaluation has come; it may be nil.
	Progress *selection.Progress
	// Plan says that the query's plan is to be shown when it has ended, with the text of expressions.
	Plan bool
}

// By has an engine make the request's query that knows nothing of executors.
func (r *Request) By(ctx context.Context, e promql.QueryEngine) (promql.Query, error) {
	if r.Step == 0 {
		return e.NewInstantQuery(ctx, r.Storage, r.Options, r.Query, r.Start)
	}
	return e.NewRangeQuery(ctx, r.Storage, r.Options, r.Query, r.Start, r.End, r.Step)
}

// Mode says which executor a request wants.
type Mode string

const (
	// Auto has executors evaluate what they can, on GPUs what is expected to be faster there.
	Auto Mode = "auto"
	// CPU runs on cpuexec whatever it can compute, however small.
	CPU Mode = "cpu"
	// GPU runs on a GPU every window, with what aggregates it, that one can
	// compute, however small, and the rest as CPU does.
	GPU Mode = "gpu"
	// Prometheus leaves the whole query to Prometheus's engine.
	Prometheus Mode = "prometheus"
)

// ParseMode reads the value of a request's executor parameter; the empty
// string is Auto.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return Auto, nil
	case Auto, CPU, GPU, Prometheus:
		return m, nil
	}
	return "", fmt.Errorf("unknown executor %.100q: use auto, cpu, gpu or prometheus", s)
}
