package operator

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// inParts is a sink of groups that notes at each word of a group's steps which series were added.
type inParts struct {
	order
	of    []int32
	words int
	added [][]int32      // words a group
	adds  []atomic.Int32 // who is adding there
	wrong atomic.Bool    // two were, or a row held another series' values
	parts atomic.Bool    // less than all steps were added at once
}

func (s *inParts) GroupOf() []int32 { return s.of }

func (s *inParts) AddSteps(i int32, in dense.Row, w0, w1 int) {
	if w1-w0 < s.words {
		s.parts.Store(true)
	}
	for w := w0; w < w1; w++ {
		at := int(s.of[i])*s.words + w
		if s.adds[at].Add(1) > 1 || in.Values[w<<6] != float64(i) {
			s.wrong.Store(true)
		}
		s.added[at] = append(s.added[at], i)
		s.adds[at].Add(-1)
	}
}

// Series are added to each part of their group in order, each once, however long they take to
// fill and whoever fills them.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		name                   string
		groups, steps, workers int
		parts                  bool
	}{
		{"one group", 1, 1441, 16, true},
		{"one group of few steps", 1, 70, 16, false},
		{"one group, few workers", 1, 1441, 2, false},
		{"four groups", 4, 1441, 16, true},
		{"many groups", 40, 1441, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			const series = 3000
			q := NewQuery(t.Context(), plan.NewGrid(0, int64(c.steps-1)*1000, 1000), c.workers)
			seed := rand.Uint64()
			t.Log("seed", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			s := &inParts{of: make([]int32, series), words: (c.steps + 63) / 64}
			s.added, s.adds = make([][]int32, c.groups*s.words), make([]atomic.Int32, c.groups*s.words)
			want := make([][]int32, c.groups)
			pauses := make([]int, series)
			for i := range s.of {
				g := int32(r.IntN(c.groups))
				s.of[i], pauses[i] = g, r.IntN(4)
				if i%7 != 0 {
					want[g] = append(want[g], int32(i))
				}
			}
			require.NoError(t, feed(q, s, series, func(_, i int, out dense.Row, counts *dense.Counts) error {
				for range pauses[i] {
					runtime.Gosched()
				}
				if i%7 == 0 { // without a value, and not added
					return nil
				}
				for k := range out.Values {
					out.Set(k, float64(i))
				}
				counts.Points = c.steps
				return nil
			}))
			require.False(t, s.wrong.Load())
			require.Equal(t, c.parts, s.parts.Load())
			for at, got := range s.added {
				require.Equal(t, want[at/s.words], got, "word %d of group %d", at%s.words, at/s.words)
			}
		})
	}
}

// Where one series cannot be filled the others' workers do not wait for it.
func TestTurnsFail(t *testing.T) {
	const series, steps = 3000, 1441
	q := NewQuery(t.Context(), plan.NewGrid(0, (steps-1)*1000, 1000), 8)
	s := &inParts{of: make([]int32, series), words: (steps + 63) / 64}
	s.added, s.adds = make([][]int32, s.words), make([]atomic.Int32, s.words)
	failed := errors.New("series 100")
	err := feed(q, s, series, func(_, i int, out dense.Row, counts *dense.Counts) error {
		if i == 100 {
			return failed
		}
		for k := range out.Values {
			out.Set(k, float64(i))
		}
		counts.Points = steps
		return nil
	})
	require.Equal(t, failed, err)
	for _, got := range s.added {
		require.LessOrEqual(t, len(got), 100)
	}
}
