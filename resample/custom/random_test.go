package custom

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
	"github.com/promwarp/promwarp/resample/custom/customtest"
)

func randomSource(r *rand.Rand) Source {
	return Source(customtest.Random(r, customtest.Kinds{Library: true, Times: true}))
}

// randomRuns are runs of a series, of which some are longer than a block.
func randomRuns(r *rand.Rand) *aggregate.Runs {
	in := &aggregate.Runs{Grid: &bucket.Grid{}}
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.MaxFloat64, 5e-324}
	t, at, overlap := r.Int64N(1e12), int32(0), r.IntN(3) == 0
	longest := []int{2, 30, 4 * block}[r.IntN(3)]
	for k := range 1 + r.IntN(40) {
		n := 1 + r.IntN(longest)
		for range n {
			v := math.Round(20 * r.NormFloat64())
			if r.IntN(30) == 0 {
				v = odd[r.IntN(len(odd))]
			}
			in.Times, in.Values = append(in.Times, t), append(in.Values, v)
			t += 1 + r.Int64N(20_000)
		}
		first := at
		if overlap {
			first = max(0, first-int32(r.IntN(5)))
		}
		if at += int32(n); r.IntN(10) > 0 {
			in.Runs = append(in.Runs, bucket.Run{Bucket: int32(k), First: first, End: at})
		}
		in.Grid.Starts, in.Grid.Ends = append(in.Grid.Starts, in.Times[first]-r.Int64N(9)), append(in.Grid.Ends, in.Times[at-1]+1)
	}
	return in
}

// requireSame requires the same bits, or NaN.
func requireSame(t *testing.T, want, got float64, about string, args ...any) {
	t.Helper()
	if math.Float64bits(want) != math.Float64bits(got) && !(math.IsNaN(want) && math.IsNaN(got)) {
		require.Fail(t, fmt.Sprintf("%v is not %v", got, want), append([]any{about}, args...)...)
	}
}

// comparePlain compares a program with its plain form over runs: what each comes to, what all of
// them merged come to, and what all their samples as one run do.
func comparePlain(t *testing.T, s *Source, in *aggregate.Runs, about string) {
	d, err := s.Compile()
	require.NoError(t, err, about)
	var memory aggregate.Memory
	contents := aggregate.Contents{Parts: aggregate.Count, Own: d.Own}
	states := contents.Make(nil, in, &memory)
	out := make([]float64, len(states))
	d.Results(states, 0, out)
	merged := map[string]float64{}
	for k, run := range in.Runs {
		state := plainState(s, in.Times[run.First:run.End], in.Values[run.First:run.End])
		requireSame(t, plainResult(s, state, in.Grid.Starts[run.Bucket], in.Grid.Ends[run.Bucket]), out[k], "%s\nrun %d: %+v", about, k, *s)
		if s.Merge == nil {
			continue
		}
		if merged = plainMerge(s, merged, state); k == 0 {
			merged = state
			continue
		}
		contents.Merge(&states[0], &states[k])
	}
	if s.Merge != nil && len(states) > 0 {
		d.Results(states[:1], 0, out)
		first := in.Runs[0].Bucket
		requireSame(t, plainResult(s, merged, in.Grid.Starts[first], in.Grid.Ends[first]), out[0], "%s\nmerged: %+v", about, *s)
	}
}

// TestPlain compares random programs with the plain form.
func TestPlain(t *testing.T) {
	reduced, recurring := 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := randomSource(r)
		p, err := s.program()
		require.NoError(t, err, "seed %d: %+v", seed, s)
		reduced, recurring = reduced+len(p.plan.reductions), recurring+len(p.plan.recurrence.instrs)
		comparePlain(t, &s, randomRuns(r), fmt.Sprintf("seed %d", seed))
	}
	require.Greater(t, reduced, 300)
	require.Greater(t, recurring, 1000)
}

// FuzzCompile compiles any text: what is wrong is an *Error that is not long, and what is not comes
// to the same as the plain form.
func FuzzCompile(f *testing.F) {
	for seed := range uint64(20) {
		s := randomSource(rand.New(rand.NewPCG(seed, 8)))
		f.Add(s.State["f0"], s.Add["f0"], s.Merge["f0"], s.Result)
	}
	f.Add("0", "f0 + (v > 1 ? v - prev_v : 0)", "a.f0 + b.f0", "f0 / (end - start)")
	f.Add("-inf", "0 < (0 < (0 < v < 1 ? 1 : 0) < 1 ? 1 : 0) < 1 ? v : f0", "", "let x = f0; let y = x; x*y")
	f.Add("1_000", "if first { v } else { f0 | max(v) }", "a?.f0 ?? b['f0']", "\n\t [1, \"ä\"]; #")
	f.Fuzz(func(t *testing.T, state, add, merge, result string) {
		s := Source{Name: "f", State: map[string]string{"f0": state}, Add: map[string]string{"f0": add}, Result: result}
		if merge != "" {
			s.Merge = map[string]string{"f0": merge}
		}
		if _, err := s.Compile(); err != nil {
			var wrong *Error
			require.True(t, errors.As(err, &wrong), err)
			require.Less(t, len(err.Error()), 1000)
			return
		}
		clear(trees)
		comparePlain(t, &s, randomRuns(rand.New(rand.NewPCG(1, 9))), "")
	})
}
