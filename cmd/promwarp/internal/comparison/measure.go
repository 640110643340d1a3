// Package comparison compares promwarp's answers with Prometheus's, to the bit, and their times.
//
// Two sides and numbers of rounds go in; a Row comes out, and Report prints rows. Samples that arrive
// meanwhile make no difference: where answers differ, Prometheus is asked again. Start with Measure.
package comparison

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
)

// Side asks one of those compared.
type Side func(context.Context) (*client.Answer, error)

// Verdict says whether answers are the same.
type Verdict string

const (
	Same      Verdict = "same"
	Different Verdict = "DIFFERENT"
	// NotCompared is of queries that Prometheus alone does not answer, or each time otherwise.
	NotCompared Verdict = "not compared"
)

// Row is what comparing one query found. Times are in ms, 0 where there was no answer.
type Row struct {
	Query      string  `json:"query"`
	From       string  `json:"from,omitempty"`
	Prometheus float64 `json:"prometheus_ms"`        // median
	First      float64 `json:"first_ms"`             // of promwarp
	Repeated   float64 `json:"repeated_ms"`          // of promwarp, median
	Remembered bool    `json:"remembered,omitempty"` // Repeated is of results of earlier queries
	Verdict    Verdict `json:"verdict"`
	Empty      bool    `json:"empty,omitempty"` // Prometheus's answer has no series
	Detail     string  `json:"detail,omitempty"`
	Hint       string  `json:"hint,omitempty"` // what to try where answers differ
}

// Rounds are how often each side is asked; promwarp once more before, at first.
type Rounds struct{ Prometheus, Repeated int }

// Measure asks both sides and compares each of promwarp's answers. It fails only once ctx is done.
func Measure(ctx context.Context, prometheus, promwarp Side, n Rounds) (row Row, err error) {
	row.Verdict = Same
	want, times, failure := ask(ctx, prometheus, n.Prometheus)
	row.Prometheus = median(times)
	row.Empty = failure == nil && isEmpty(want)
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
			if err := row.compare(ctx, prometheus, &want, got); err != nil {
				return row, err
			}
		}
	}
	row.Repeated = median(repeated)
	return row, nil
}

// Compared reports whether answers with samples were compared.
func (r *Row) Compared() bool { return r.Verdict == Same && r.First > 0 && !r.Empty }

// rememberedSteps is in an explanation of a query that was answered from results of earlier ones.
var rememberedSteps = regexp.MustCompile(`"kept_steps":\s*[1-9]`)

// Remembers reports whether a promwarp that was asked for a query answers it from remembered results.
func Remembers(ctx context.Context, promwarp *client.Client, form url.Values) bool {
	form = maps.Clone(form)
	form.Set("analyze", "true")
	a, err := promwarp.Ask(ctx, "/explain", form)
	return err == nil && rememberedSteps.Match(a.Data)
}

// ask asks so often, and returns the last answer and the times in ms.
func ask(ctx context.Context, side Side, rounds int) (a *client.Answer, times []float64, err error) {
	for range rounds {
		if a, err = side(ctx); err != nil {
			return nil, nil, err
		}
		times = append(times, milliseconds(a.Took))
	}
	return a, times, nil
}

// isEmpty reports whether an answer has no series.
func isEmpty(a *client.Answer) bool {
	var data struct{ Result []json.RawMessage }
	return json.Unmarshal(a.Data, &data) == nil && len(data.Result) == 0
}

// failed is the verdict on a query that one side at least did not answer.
func failed(prometheus, promwarp error) (Verdict, string) {
	var a, b *client.Refused
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
func (r *Row) compare(ctx context.Context, prometheus Side, want **client.Answer, got *client.Answer) error {
	difference := Difference(*want, got)
	if difference == nil {
		return nil
	}
	again, err := prometheus(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.Verdict, r.Detail = NotCompared, "Prometheus: "+err.Error()
	case Difference(again, got) == nil: // it had not all samples before
		*want = again
	case Difference(*want, again) != nil:
		r.Verdict, r.Detail = NotCompared, "Prometheus itself answers differently each time: an end further back is settled"
	default:
		r.Verdict, r.Detail = Different, difference.Error()
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
