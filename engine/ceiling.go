package engine

import (
	"cmp"
	"fmt"

	"github.com/promwarp/promwarp/selection"
)

// CeilingError is the error of a query that reads more than its request allows.
type CeilingError struct {
	Parameter    string // of the request: max_series or max_samples
	Reads, Most  int64
	Selector     string // that reads most of it
	OfSelector   int64
	Extrapolated bool // from what is cached
}

func (e *CeilingError) Error() string {
	reads, what := "reads", e.Parameter[len("max_"):]
	if e.Extrapolated {
		reads = "is expected to read about"
	}
	return fmt.Sprintf("query %s %d %s, %d more than the %d that %s allows; most of them, %d, are of %s: ask for fewer series or a shorter range, or allow more",
		reads, e.Reads, what, e.Reads-e.Most, e.Most, e.Parameter, e.OfSelector, e.Selector)
}

// ceilings add up what a query reads, against what its request allows: series, and samples.
type ceilings [2]CeilingError

func (r *Request) ceilings() *ceilings {
	return &ceilings{{Parameter: "max_series", Most: r.MaxSeries}, {Parameter: "max_samples", Most: r.MaxSamples}}
}

// add adds what is read of a selector. It fails where all is above a ceiling, or is expected to be
// twice above: that far off no expectation should be.
func (c *ceilings) add(selector string, series, samples int64, exact bool) error {
	for i, n := range []int64{series, samples} {
		e := &c[i]
		e.Reads += n
		e.Extrapolated = e.Extrapolated || !exact
		if n > e.OfSelector {
			e.OfSelector, e.Selector = n, selector
		}
		reads := e.Reads
		if e.Extrapolated {
			reads /= 2
		}
		if e.Most > 0 && reads > e.Most {
			return new(*e)
		}
	}
	return nil
}

// beginCeilings fails a query that reads more than its request allows by what is cached, before
// anything is fetched.
func (q *query) beginCeilings() error {
	if q.request.MaxSeries == 0 && q.request.MaxSamples == 0 {
		return nil
	}
	q.ceilings = q.request.ceilings()
	all, err := q.survey()
	foreseen := q.request.ceilings()
	for _, s := range all {
		err = cmp.Or(err, foreseen.add(s.Selector, s.Series, s.Samples, s.Exact))
	}
	return err
}

// admit counts a selection that is there, of which mint to maxt (ms, both included) is read.
func (q *query) admit(selector fmt.Stringer, sel *selection.Selection, mint, maxt int64) error {
	if q.ceilings == nil {
		return nil
	}
	n := amountOf(sel, nil, mint, maxt, 1)
	return q.ceilings.add(selector.String(), int64(n.series), int64(n.samples), true)
}
