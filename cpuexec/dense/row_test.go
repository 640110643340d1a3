package dense

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
	"github.com/promwarp/promwarp/plan"
)

// A row is written step by step, and finished as a sparse one.
func Example() {
	row := New(6)
	cur := Cursor{Row: row}
	for _, k := range []int{1, 2, 5} {
		cur.Set(k, float64(k)/2)
	}
	cur.Flush()
	finished := row.Compact(Count(row.Present), labels.FromStrings("job", "a"))
	fmt.Println(finished.Labels, finished.Values, finished.Runs)
	// Output: {job="a"} [0.5 1 2.5] [{1 2} {5 1}]
}

// drawRow draws a row, and its values by step.
func drawRow(t *rapid.T) (row Row, want map[int]float64) {
	row, want = New(rapid.IntRange(1, 200).Draw(t, "steps")), map[int]float64{}
	for k := range row.Values {
		if rapid.IntRange(0, 3).Draw(t, "present") > 0 {
			want[k] = float64(k) + 0.5
			row.Set(k, want[k])
		}
	}
	return row, want
}

// Rows are the same after they were sparse.
func TestRowThroughSparse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row, want := drawRow(t)
		require.Equal(t, len(want), Count(row.Present))
		in := row.Compact(len(want), labels.EmptyLabels())
		require.Len(t, in.Values, len(want))
		out := New(len(row.Values))
		out.Put(&in)
		require.Equal(t, row, out)

		var runs []plan.Run
		for k := range row.Values {
			_, ok := want[k]
			require.Equal(t, ok, row.Has(k, 1), "step %d", k)
			if ok {
				runs = plan.AppendRun(runs, plan.Run{First: int32(k), Len: 1})
			}
		}
		require.Equal(t, in.Runs, runs)
	})
}

// A cursor over a sparse row finds the values of stretches that lie within its runs.
func TestRunCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row, want := drawRow(t)
		in := row.Compact(len(want), labels.EmptyLabels())
		c := RunCursor{Row: &in}
		for k := 0; k < len(row.Values); {
			n := 1
			if _, ok := want[k]; ok {
				for most := rapid.IntRange(1, 70).Draw(t, "most"); n < most; n++ {
					if _, ok := want[k+n]; !ok {
						break
					}
				}
			}
			var values []float64
			for i := range n {
				if v, ok := want[k+i]; ok {
					values = append(values, v)
				}
			}
			require.Equal(t, values, c.Next(int32(k), int32(n)), "%d steps from %d on", n, k)
			k += n
		}
	})
}

// Each finds the same values of a sparse row as there are, stretch by stretch.
func TestRunCursorEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row, want := drawRow(t)
		in := row.Compact(len(want), labels.EmptyLabels())
		c, got := RunCursor{Row: &in}, map[int]float64{}
		for first := 0; first < len(row.Values); {
			end := first + rapid.IntRange(1, 70).Draw(t, "steps")
			c.Each(int32(first), int32(end), func(step int32, values []float64) {
				require.True(t, first <= int(step) && int(step)+len(values) <= end)
				for k, v := range values {
					got[int(step)+k] = v
				}
			})
			first = end
		}
		require.Equal(t, want, got)
	})
}

// TestCompare: each bit is Go's comparison of two values, NaN and both zeros included.
func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 65 {
		for range 50 {
			lhs, rhs := make([]float64, n), make([]float64, n)
			var equal, greater, atLeast uint64
			for k := range lhs {
				lhs[k], rhs[k] = exacttest.Odd(r), exacttest.Odd(r)
				if r.IntN(3) == 0 {
					rhs[k] = lhs[k]
				}
				for _, c := range []struct {
					word  *uint64
					holds bool
				}{{&equal, lhs[k] == rhs[k]}, {&greater, lhs[k] > rhs[k]}, {&atLeast, lhs[k] >= rhs[k]}} {
					if c.holds {
						*c.word |= 1 << k
					}
				}
			}
			require.Equal(t, equal, Equal(lhs, rhs))
			require.Equal(t, greater, Greater(lhs, rhs))
			require.Equal(t, atLeast, AtLeast(lhs, rhs))
		}
	}
}
