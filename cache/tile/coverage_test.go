package tile

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestCoverage compares coverage with a table of the time each moment was
// fetched.
func TestCoverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const end = 30
		var model [end]int64 // 0 stands for not covered
		var cs Coverage
		in := func() Span {
			from := rapid.Int64Range(0, end).Draw(t, "from")
			return Span{from, rapid.Int64Range(from, end).Draw(t, "to")}
		}
		check := func(cs Coverage, want func(i, at int64) bool) {
			for k, c := range cs {
				if c.Empty() || k > 0 && (cs[k-1].To > c.From || cs[k-1].To == c.From && cs[k-1].At == c.At) {
					t.Fatalf("%v is not in order or not joined", cs)
				}
			}
			var got [end]int64
			for _, c := range cs {
				for i := c.From; i < c.To; i++ {
					got[i] = c.At
				}
			}
			for i, at := range model {
				if !want(int64(i), at) {
					at = 0
				}
				if got[i] != at {
					t.Fatalf("%v has %d at %d, want %d", cs, got[i], i, at)
				}
			}
		}
		any := func(int64, int64) bool { return true }
		for range rapid.IntRange(1, 12).Draw(t, "n") {
			s, at := in(), rapid.Int64Range(1, 4).Draw(t, "at")
			if rapid.Bool().Draw(t, "with") {
				cs = cs.With(s, at)
				for i := s.From; i < s.To; i++ {
					model[i] = at
				}
			} else {
				cs = cs.Without(s)
				for i := s.From; i < s.To; i++ {
					model[i] = 0
				}
			}
			check(cs, any)
			w := in()
			check(cs.Within(w, at), func(i, a int64) bool { return a >= at && i >= w.From && i < w.To })
			var since Spans
			for i, a := range model {
				if a >= at {
					since = since.With(Span{int64(i), int64(i) + 1})
				}
			}
			if got := cs.Since(at); fmt.Sprint(got) != fmt.Sprint(since) {
				t.Fatalf("%v since %d is %v, want %v", cs, at, got, since)
			}
		}
	})
}
