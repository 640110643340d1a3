package results

import (
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Reach says what a step at time t (ms) reads: the samples of (t-Offset-Width,
// t-Offset].
type Reach struct{ Width, Offset int64 }

// Settled returns the longest run of steps of g, from from to to, the end excluded,
// that read nothing but samples of which p knows the revision.
func (r Reach) Settled(g plan.Grid, p *selection.Provenance) (from, to int) {
	return r.run(g, common(p.Settled, p.Settled))
}

// run returns the longest run of steps of g each of which reads nothing outside of
// one of the spans, which are in time order.
func (r Reach) run(g plan.Grid, spans []selection.Settled) (from, to int) {
	begin, end := 0, 0 // the present run
	for _, s := range spans {
		first := max(ceil(s.From-1+r.Width+r.Offset-g.Start, g.Interval), 0)
		last := min(ceil(s.To+r.Offset-g.Start, g.Interval), int64(g.Steps)) // not included
		if first >= last {
			continue
		}
		if int(first) > end {
			begin = int(first)
		}
		if end = int(last); end-begin > to-from {
			from, to = begin, end
		}
	}
	return from, to
}

// ceil is a over b, which is positive, rounded up.
func ceil(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// common returns the spans in which a and b, each in time order, have the same
// revisions, whatever these are; none touches another.
func common(a, b []selection.Settled) (out []selection.Settled) {
	for len(a) > 0 && len(b) > 0 {
		from, to := max(a[0].From, b[0].From), min(a[0].To, b[0].To)
		if from < to && a[0].Revision == b[0].Revision {
			if k := len(out) - 1; k >= 0 && out[k].To == from {
				out[k].To = to
			} else {
				out = append(out, selection.Settled{From: from, To: to})
			}
		}
		if a[0].To == to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// clip returns what ss has from from to to (ms, to excluded).
func clip(ss []selection.Settled, from, to int64) (out []selection.Settled) {
	for _, s := range ss {
		if s.From, s.To = max(s.From, from), min(s.To, to); s.From < s.To {
			out = append(out, s)
		}
	}
	return out
}
