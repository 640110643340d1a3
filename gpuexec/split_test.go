package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
)

// machines are one on each of the devices of the host driver, whose batches are small.
func machines(t testing.TB, n int) (all []*pipeline.Machine) {
	cudatest.Control(t).Configure(fmt.Sprintf("devices=%d", n))
	for i := range n {
		dev, err := cudatest.Open(t).Device(i)
		require.NoError(t, err)
		m, err := pipeline.New(dev, Options{Memory: 96 << 20, Staging: 1 << 20})
		require.NoError(t, err)
		require.NoError(t, m.Kernels.Load(t.Context(), launch.Queries()...))
		m.GoodBatch = 1 << 18
		free, left, _ := m.Lender.Counts()
		t.Cleanup(func() {
			require.NoError(t, m.Store.Check())
			f, l, _ := m.Lender.Counts()
			require.Equal(t, free+left, f+l, "all memory that was lent was given back")
			require.NoError(t, errors.Join(m.Close(), dev.Close()))
		})
		all = append(all, m)
	}
	return all
}

// Several has machines compute leaves together, as fast as each is said to be.
type Several struct {
	machines []*pipeline.Machine
	speeds   []float64
	// failures are how often the computing of each part fails, behind so many of its rows.
	failures, behind int
	Parts            []int // of each leaf
}

// NewSeveral has one machine of as many compute leaves; see Only.
func NewSeveral(t testing.TB, n int) *Several { return &Several{machines: machines(t, n)} }

func (*Several) Suits(offload.Leaf) string           { return "" }
func (*Several) OnCores(offload.Leaf, time.Duration) {}

// Only has as many of the machines compute leaves together.
func (s *Several) Only(speeds ...float64) *Several {
	return &Several{machines: s.machines, speeds: speeds}
}

// Failing has each part fail some times, behind so many of its rows.
func (s *Several) Failing(failures, behind int) *Several {
	s.failures, s.behind = failures, behind
	return s
}

var errHalfWay = errors.New("the device fails half way")

func (s *Several) Evaluate(ctx context.Context, l offload.Leaf, consume func(*offload.Rows) error) (offload.Outcome, error) {
	split := NewSplit(l, s.speeds)
	if split == nil {
		s.Parts = append(s.Parts, 1)
		o, err := Evaluate(ctx, s.machines[0], l, consume)
		return o.Outcome, err
	}
	s.Parts = append(s.Parts, len(split.Parts))
	tried := make([]int, len(split.Parts))
	o, err := split.Evaluate(ctx, func(ctx context.Context, part int, l offload.Leaf, consume func(*offload.Rows) error) (pipeline.Outcome, bool, error) {
		on := s.machines[(split.Parts[part].Device+tried[part])%len(s.machines)]
		if tried[part]++; tried[part] > s.failures {
			o, err := Evaluate(ctx, on, l, consume)
			return o, false, err
		}
		left := s.behind
		_, err := Evaluate(ctx, on, l, func(x *offload.Rows) error {
			if left--; left >= 0 {
				return consume(x)
			}
			if x.Release != nil {
				x.Release()
			}
			return errHalfWay
		})
		if err != nil && !errors.Is(err, errHalfWay) {
			return pipeline.Outcome{}, false, err
		}
		return pipeline.Outcome{}, true, errHalfWay
	}, consume)
	return o.Outcome, err
}

// TestSplit: random leaves have the same bits on any number of devices, as fast as each other or not, and
// if each part fails once or twice, at its beginning or behind some of its rows.
func TestSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 92))
	one := NewSeveral(t, 8)
	cpu := cpuexec.New(cpuexec.Options{})
	anyWindow(t)
	rounds, parts, uncertain := 6, map[int]int{}, 0
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		sel := randomSelection(t, r, []int{200, 1300, 33, 1, 2}[round%5])
		for range 12 {
			grid := plan.Grid{Start: r.Int64N(6_000_000), Interval: []int64{1 + r.Int64N(300_000), 15_000, 60_000}[r.IntN(3)], Steps: 1 + r.IntN(2)*r.IntN(150)}
			by, without := [][]string{nil, {"job"}, {"instance"}}[r.IntN(3)], r.IntN(4) == 0
			op := []string{"topk", "bottomk", "quantile", "sum", "window", "stdvar", "limitk", "count", "avg"}[r.IntN(9)]
			sum := aggregation("sum", testFunctions[r.IntN(len(testFunctions))], []int64{1, 60_000, 300_000, 1_234_567}[r.IntN(4)], 0, nil, by, without)
			node := sum.Input
			for range r.IntN(3) {
				node = randomMap(r, node)
			}
			if op != "window" {
				sum.Func, sum.Input = aggregate.Named(op), node
				sum.Param = float64([]int{1, 2, 5, 17, 100}[r.IntN(5)])
				if op == "quantile" {
					sum.Param = []float64{0, 1, 0.5, 0.9}[r.IntN(4)]
				}
				node = sum
			}
			job := jobOver(node, grid, sel)
			job.CountSamples = r.IntN(2) == 0
			run := func(s *Several) (*plan.Matrix, error) {
				job.Accelerator = s
				m, err := cpu.Run(t.Context(), job)
				for _, n := range s.Parts {
					parts[n]++
				}
				return m, err
			}
			what := fmt.Sprintf("round %d: %s %v of %s by %v without %v, grid %v", round, op, sum.Param, sum.Input, by, without, grid)
			want, err := run(one)
			one.Parts = nil
			if err != nil {
				require.EqualError(t, err, mixedZeros, what)
				uncertain++
				continue
			}
			speeds := []float64{1, 0.5 + 4*r.Float64(), 0.1, 3, 1, 1, 2, 1}
			for name, s := range map[string]*Several{
				"2 devices": one.Only(1, 1), "3 devices": one.Only(1, 1, 1), "8 devices": one.Only(slices.Repeat([]float64{1}, 8)...),
				"unequal ones": one.Only(speeds...), "failing ones": one.Only(speeds[:3]...).Failing(1+r.IntN(2), r.IntN(3)),
			} {
				got, err := run(s)
				require.NoError(t, err, "%s: %s", name, what)
				same(t, want, got, true, name+": "+what)
				require.Equal(t, want.Work.Device.Leaves, got.Work.Device.Leaves, what)
				if s.failures == 0 {
					require.Equal(t, want.Work.Device.Samples, got.Work.Device.Samples, what)
					require.Equal(t, want.Work.Device.Chunks, got.Work.Device.Chunks, what)
					require.Equal(t, want.Work.Device.Bytes, got.Work.Device.Bytes, what)
				}
				got.Release()
			}
			want.Release()
		}
	}
	t.Logf("leaves by their number of parts: %v; %d are uncertain", parts, uncertain)
	for _, n := range []int{1, 2, 3, 8} {
		require.Positive(t, parts[n], "leaves in %d parts", n)
	}
}

// TestSplitShares: devices have series as they are fast, groups are whole, and the same leaf has the very
// same parts.
func TestSplitShares(t *testing.T) {
	sel := randomSelection(t, rand.New(rand.NewPCG(93, 94)), 1000)
	grid := plan.Grid{Start: 600_000, Interval: 60_000, Steps: 10}
	window := aggregation("sum", "rate", 300_000, 0, nil, []string{"instance"}, false)
	for _, node := range []plan.Node{window, window.Input} {
		l := leafOf(t, t.Context(), jobOver(node, grid, sel))
		s := NewSplit(l, []float64{1, 2, 0.5, 1.5})
		for k, share := range []float64{0.2, 0.4, 0.1, 0.3} {
			require.Equal(t, k, s.Parts[k].Device)
			require.InDelta(t, share, s.Share(s.Parts[k]), 0.002)
		}
		again := NewSplit(leafOf(t, t.Context(), jobOver(node, grid, sel)), []float64{1, 2, 0.5, 1.5})
		require.Same(t, s.Parts[3].Selection, again.Parts[3].Selection)
	}
	jobs := aggregation("sum", "rate", 300_000, 0, nil, []string{"job"}, false)
	l := leafOf(t, t.Context(), jobOver(jobs, grid, sel))
	on := map[int32]int{}
	for _, p := range NewSplit(l, []float64{1, 1, 1}).Parts {
		require.True(t, slices.IsSorted(p.series))
		for _, i := range p.series {
			g := l.GroupOf[i]
			if _, seen := on[g]; !seen {
				on[g] = p.Device
			}
			require.Equal(t, on[g], p.Device)
		}
	}
	require.Len(t, on, 5)
	require.Nil(t, NewSplit(l, []float64{1}))
	all := aggregation("sum", "rate", 300_000, 0, nil, nil, false)
	require.Nil(t, NewSplit(leafOf(t, t.Context(), jobOver(all, grid, sel)), []float64{1, 1}), "a group is not cut")
}

// TestSplitEnds: an error of one part, of the consumer or of the query ends all parts, gives memory back,
// and is the error.
func TestSplitEnds(t *testing.T) {
	s := NewSeveral(t, 3).Only(1, 1, 1)
	sel := randomSelection(t, rand.New(rand.NewPCG(95, 96)), 900)
	window := aggregation("sum", "max_over_time", 300_000, 0, nil, nil, false).Input
	leaf := leafOf(t, t.Context(), jobOver(window, faultGrid, sel))
	failed := errors.New("too many samples")
	var rows atomic.Int32
	consume := func(x *offload.Rows) error {
		x.Release()
		if rows.Add(1) == 2 {
			return failed
		}
		return nil
	}
	var request *pipeline.RequestError
	_, err := s.Evaluate(t.Context(), leaf, consume)
	require.ErrorAs(t, err, &request)
	require.ErrorIs(t, err, failed)
	require.EqualValues(t, 2, rows.Load(), "nothing is consumed behind an error")
	_, err = s.Evaluate(t.Context(), leaf, func(x *offload.Rows) error { x.Release(); panic(failed) })
	require.ErrorIs(t, err, failed)

	ended := errors.New("cancelled")
	rows.Store(10)
	leaf.Ended = func() error {
		if rows.Load() > 11 {
			return ended
		}
		return nil
	}
	_, err = s.Evaluate(t.Context(), leaf, consume)
	require.ErrorAs(t, err, &request)
	require.ErrorIs(t, err, ended)
}
