package engine

import (
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

// ceiling adds up what a query reads, against one parameter of its request.
type ceiling struct {
	CeilingError
	expected, least int64
}

// add adds what is expected of a selector, and what it reads at least. It fails where the least is
// above the ceiling, or what is expected twice as high: that far off no expectation should be.
func (c *ceiling) add(selector fmt.Stringer, expected, least int64) error {
	if c.Most == 0 {
		return nil
	}
	if c.expected, c.least = c.expected+expected, c.least+least; expected > c.OfSelector {
		c.OfSelector, c.Selector = expected, selector.String()
	}
	if c.least <= c.Most && c.expected <= 2*c.Most {
		return nil
	}
	failed := c.CeilingError
	failed.Reads, failed.Extrapolated = c.expected, c.expected > c.least
	return &failed
}

// ceilings are those of a request.
type ceilings struct{ series, samples ceiling }

func (r *Request) ceilings() *ceilings {
	return &ceilings{ceiling{CeilingError: CeilingError{Parameter: "max_series", Most: r.MaxSeries}}, ceiling{CeilingError: CeilingError{Parameter: "max_samples", Most: r.MaxSamples}}}
}

// beginCeilings fails a query that reads more than its request allows by what is cached, before
// anything is fetched.
func (q *query) beginCeilings() error {
	q.ceilings = q.request.ceilings()
	if !q.request.bounded() {
		return nil
	}
	all, err := q.survey()
	foreseen := q.request.ceilings()
	for _, s := range all {
		if err == nil {
			err = foreseen.series.add(s.text, int64(s.total.series), int64(s.counted.series))
		}
		if err == nil {
			err = foreseen.samples.add(s.text, int64(s.total.samples), int64(s.counted.samples))
		}
	}
	return err
}

// bounded reports whether the request has ceilings.
func (r *Request) bounded() bool { return r.MaxSeries > 0 || r.MaxSamples > 0 }

// admit counts a selection that is there, of which mint to maxt (ms, both included) is read.
func (q *query) admit(selector fmt.Stringer, sel *selection.Selection, mint, maxt int64) error {
	if !q.request.bounded() {
		return nil
	}
	n, _ := (&reads{}).count(&selection.Holding{Sel: sel}, mint, maxt, max(1, sel.NumSeries()))
	if err := q.ceilings.series.add(selector, int64(n.series), int64(n.series)); err != nil {
		return err
	}
	return q.ceilings.samples.add(selector, int64(n.samples), int64(n.samples))
}
