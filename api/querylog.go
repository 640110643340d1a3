package api

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/tracing"
)

// logQuery logs a query that was evaluated, if all are logged or it was slow. Its number is that of
// /api/v1/status/queries.
func (a *API) logQuery(ctx context.Context, t *turn, q promql.Query, took time.Duration, err error) {
	slow := a.o.SlowQueries > 0 && took >= a.o.SlowQueries
	if !slow && !a.o.LogQueries {
		return
	}
	fields := []any{"id", t.ID, "door", t.Door, "query", t.Query}
	if s, ok := q.Statement().(*parser.EvalStmt); ok {
		fields = append(fields, "start", s.Start.UTC(), "end", s.End.UTC(), "step", s.Interval)
	}
	ours, _ := q.(engine.Query)
	if ours != nil {
		fields = append(fields, "executor", ours.Executors())
	}
	fields = append(fields, "took", took, "samples", q.Stats().Samples.TotalSamples)
	if trace := tracing.ID(ctx); trace != "" {
		fields = append(fields, "trace", trace)
	}
	if err != nil {
		fields = append(fields, "err", err)
	}
	switch {
	case !slow:
		a.logger.Info("query", fields...)
	case ours == nil:
		a.logger.Warn("slow query", fields...)
	default:
		a.logger.Warn("slow query", append(fields, "plan", ours.Plan())...)
	}
}
