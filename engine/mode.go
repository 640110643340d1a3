package engine

import (
	"context"
	"fmt"

	"github.com/promwarp/promwarp/plan"
)

// Mode says which executor a request wants.
type Mode string

const (
	// Auto lets the planner choose for each part of a query.
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

// thing is what a mode forces, in words.
func (m Mode) thing() string {
	if m == GPU {
		return "a GPU"
	}
	return "an executor"
}

type modeKey struct{}

type modeValue struct {
	mode   Mode
	strict bool
	exact  plan.Exact
}

// WithMode returns a context whose queries run in the given mode. With strict,
// a query of which a forced executor cannot take all is an error rather than a
// warning.
func WithMode(ctx context.Context, m Mode, strict bool) context.Context {
	v := modeOf(ctx)
	v.mode, v.strict = m, strict
	return context.WithValue(ctx, modeKey{}, v)
}

// WithExact returns a context whose queries have answers as exact as that; empty means as exact as the
// engine's options say.
func WithExact(ctx context.Context, e plan.Exact) context.Context {
	v := modeOf(ctx)
	v.exact = e
	return context.WithValue(ctx, modeKey{}, v)
}

func modeOf(ctx context.Context) modeValue {
	if v, ok := ctx.Value(modeKey{}).(modeValue); ok {
		return v
	}
	return modeValue{mode: Auto}
}

type planKey struct{}

// WithPlan returns a context whose queries have a plan to show when they have ended.
func WithPlan(ctx context.Context) context.Context { return context.WithValue(ctx, planKey{}, true) }

type statisticsKey struct{}

// WithStatistics returns a context whose queries keep the statistics that Prometheus's
// engine does. Executors count no samples otherwise, and with results kept from earlier
// queries the largest number of samples held at once is not known.
func WithStatistics(ctx context.Context) context.Context {
	return context.WithValue(ctx, statisticsKey{}, true)
}

func statisticsAsked(ctx context.Context) bool {
	asked, _ := ctx.Value(statisticsKey{}).(bool)
	return asked
}
