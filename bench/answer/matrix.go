package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/plan"
)

// Matrix is a parsed answer of a range query: its series by labels, and its warnings and infos.
type Matrix struct {
	Series  []compare.Series
	Notices []string
}

// Points is the number of points of all series.
func (m *Matrix) Points() (n int) {
	for _, s := range m.Series {
		n += len(s.Floats)
	}
	return n
}

// Difference says where got differs from want, nothing if it does not. Values may be apart as
// Prometheus's and promwarp's may. Of notices the kinds are compared: some name the range that was
// asked for, which Join does not know.
func Difference(want, got *Matrix) string {
	if w, g := kinds(want.Notices), kinds(got.Notices); !slices.Equal(w, g) {
		return fmt.Sprintf("warnings and infos %q instead of %q", g, w)
	}
	d := compare.Differ(&compare.Answer{Series: want.Series}, &compare.Answer{Series: got.Series}, plan.Tolerance)
	if d == nil {
		return ""
	}
	return d.String()
}

func kinds(notices []string) (kinds []string) {
	for _, n := range notices {
		n, _, _ = strings.Cut(n, ", from buckets")
		kinds = append(kinds, n)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Join puts answers for parts of a range together, in the order of time.
func Join(parts []*Matrix) *Matrix {
	all := &Matrix{}
	at := map[string]int{}
	for _, p := range parts {
		for _, s := range p.Series {
			name := s.Labels.String()
			i, ok := at[name]
			if !ok {
				i, at[name] = len(all.Series), len(all.Series)
				all.Series = append(all.Series, compare.Series{Labels: s.Labels})
			}
			all.Series[i].Floats = append(all.Series[i].Floats, s.Floats...)
		}
		all.Notices = append(all.Notices, p.Notices...)
	}
	all.sort()
	return all
}

func (m *Matrix) sort() {
	a := compare.Answer{Series: m.Series}
	a.Sort()
}

// Parse reads an answer of a range query.
func (a Answer) Parse() (*Matrix, error) {
	if err := a.Err(); err != nil {
		return nil, err
	}
	r, err := compare.Parse(a.Code, a.Body)
	switch {
	case err != nil:
		return nil, err
	case r.Type != parser.ValueTypeMatrix:
		return nil, fmt.Errorf("the result is a %s", r.Type)
	}
	for _, s := range r.Series {
		if len(s.Histograms) > 0 {
			return nil, fmt.Errorf("series %s has native histograms, which are not compared", s.Labels)
		}
	}
	r.Sort()
	return &Matrix{Series: r.Series, Notices: append(r.Warnings, r.Infos...)}, nil
}
