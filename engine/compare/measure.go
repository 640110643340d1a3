package compare

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// Side asks one of those compared.
type Side func(context.Context) (*Answer, error)

// Verdict says whether answers are the same.
type Verdict string

const (
	Same      Verdict = "same"
	Different Verdict = "DIFFERENT"
	// NotCompared is of queries that Prometheus alone does not answer.
	NotCompared Verdict = "not compared"
	// Undecided is of queries that Prometheus answers each time otherwise.
	Undecided Verdict = "undecided"
)

// Row is what comparing one query found. Times are in ms, 0 where there was no answer.
type Row struct {
	Query      string  `json:"query"`
	From       string  `json:"from,omitempty"`
	Prometheus float64 `json:"prometheus_ms"`        // median
	Evaluated  float64 `json:"-"`                    // in which Prometheus says that it evaluated the query, at last
	First      float64 `json:"first_ms"`             // of promwarp
	Repeated   float64 `json:"repeated_ms"`          // of promwarp, median
	Remembered bool    `json:"remembered,omitempty"` // Repeated is of results of earlier queries
	Verdict    Verdict `json:"verdict"`
	Empty      bool    `json:"empty,omitempty"` // Prometheus's answer has no series
	Detail     string  `json:"detail,omitempty"`
	Hint       string  `json:"hint,omitempty"` // what to try where answers differ
}

// Rounds are how often each side is asked; promwarp once more before, at first.
type Rounds struct {
	Prometheus, Repeated int
	Tolerance            float64 // of values, relative; 0 compares bits
}

// Measure asks both sides and compares each of promwarp's answers. It fails only once ctx is done.
func Measure(ctx context.Context, prometheus, promwarp Side, n Rounds) (row Row, err error) {
	row.Verdict = Same
	var want *Answer
	var failure error
	var times []float64
	for i := 0; i < n.Prometheus && failure == nil; i++ {
		if want, failure = prometheus(ctx); failure == nil {
			times = append(times, milliseconds(want.Took))
		}
	}
	if failure == nil {
		row.Prometheus, row.Evaluated = median(times), milliseconds(want.Evaluated)
	}
	row.Empty = failure == nil && want.Type != parser.ValueTypeString && len(want.Series) == 0
	var repeated []float64
	for i := range n.Repeated + 1 {
		got, wrong := promwarp(ctx)
		if ctx.Err() != nil {
			return row, ctx.Err()
		}
		if wrong != nil || failure != nil {
			row.Verdict, row.Detail = failed(failure, wrong)
			return row, nil
		}
		if i == 0 {
			row.First = milliseconds(got.Took)
		} else {
			repeated = append(repeated, milliseconds(got.Took))
		}
		if row.Verdict == Same {
			if err := row.compare(ctx, prometheus, want, got, n.Tolerance); err != nil {
				return row, err
			}
		}
	}
	row.Repeated = median(repeated)
	return row, nil
}

// Compared reports whether answers with samples were compared.
func (r *Row) Compared() bool { return r.Verdict == Same && r.First > 0 && !r.Empty }

// failed is the verdict on a query that one side at least did not answer.
func failed(prometheus, promwarp error) (Verdict, string) {
	var a, b *Refused
	switch {
	case promwarp == nil:
		return NotCompared, "Prometheus: " + prometheus.Error()
	case prometheus == nil:
		return Different, "promwarp: " + promwarp.Error()
	case !errors.As(prometheus, &a) || !errors.As(promwarp, &b):
		return NotCompared, "Prometheus: " + prometheus.Error()
	case *a == *b:
		return Same, "both refuse: " + a.Text
	}
	return Different, "promwarp refuses: " + b.Text + "; Prometheus: " + a.Text
}

// compare compares an answer with Prometheus's, which is asked again where they differ.
func (r *Row) compare(ctx context.Context, prometheus Side, want, got *Answer, tolerance float64) error {
	difference := Differ(want, got, tolerance)
	if difference == nil {
		return nil
	}
	again, err := prometheus(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.Verdict, r.Detail = NotCompared, "Prometheus: "+err.Error()
	case Differ(again, got, tolerance) == nil: // it had not all samples before
		*want = *again
	case Differ(want, again, 0) != nil:
		r.Verdict, r.Detail = Undecided, "Prometheus itself answers differently each time: an end further back is settled"
	default:
		r.Verdict, r.Detail = Different, difference.String()
	}
	return nil
}

// median is the upper one of two; 0 of nothing.
func median(times []float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
