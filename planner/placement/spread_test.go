package placement

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// together are constants by which every leaf is worth spreading.
var together = Constants{Cores: Costs{Sample: 1e6}, Device: Costs{Sample: 100}, Link: 10e9}

// spreadLeaf is a leaf of 800 series in 16 groups of neighbours.
func spreadLeaf(t testing.TB) *cpuexec.Leaf {
	l := leafOf(t, t.Context(), 800, "m")
	l.Groups = 16
	for i := range l.GroupOf {
		l.GroupOf[i] = int32(i / 50)
	}
	return l
}

// bits are those of values, of which stale markers are some.
func bits(values []float64) (all []uint64) {
	for _, v := range values {
		all = append(all, math.Float64bits(v))
	}
	return all
}

// evaluated is what a Placer makes of a leaf, and on how many GPUs.
func evaluated(t testing.TB, p *Placer, l *cpuexec.Leaf) (values []uint64, gpus int) {
	o, err := p.Evaluate(t.Context(), l, nil)
	require.NoError(t, err)
	require.Empty(t, o.Declined)
	return bits(o.Results.Values), max(1, o.Choice.Parts)
}

// TestSpreadLeaf: a large leaf goes to all GPUs, each of which keeps its share; one of a single group, and
// one that is not worth it, goes to one.
func TestSpreadLeaf(t *testing.T) {
	p, _, _ := open(t, 4, func(o *Options) { o.Constants = &together })
	l := spreadLeaf(t)
	values, gpus := evaluated(t, p, l)
	require.Equal(t, 4, gpus)
	all, _ := p.devices.Devices()
	for _, d := range all {
		require.Positive(t, d.State().Resident)
	}
	o, err := p.Evaluate(t.Context(), l, nil)
	require.NoError(t, err)
	require.Equal(t, values, bits(o.Results.Values))
	require.Less(t, o.Choice.Stages.Copied, o.Choice.Stages.Resident, "each GPU has its share")
	require.Contains(t, (&plan.Decision{Choice: o.Choice}).Tree(), " and 3 others: ")
	l.Forced = false
	o, err = p.Evaluate(t.Context(), l, nil)
	require.NoError(t, err)
	require.Contains(t, o.Reason, "4 GPUs are expected to be faster: ")

	_, gpus = evaluated(t, p, leafOf(t, t.Context(), 800, "one group"))
	require.Equal(t, 1, gpus)
	little := together
	little.Device.Fixed = time.Second
	p.model.Store(NewModel(little))
	alone, gpus := evaluated(t, p, spreadLeaf(t))
	require.Equal(t, 1, gpus)
	require.Equal(t, values, alone)
}

// TestSpreadUnequal: GPUs get as much as they are fast, and the longest part is what is expected.
func TestSpreadUnequal(t *testing.T) {
	p, _, _ := open(t, 3, func(o *Options) { o.Constants = &together })
	m := p.model.Load()
	for k, speed := range []float64{0.5, 3, 0.5} {
		m.speeds.Store(fmt.Sprint("promwarp host device ", k), speed)
	}
	l := spreadLeaf(t)
	size := l.Size()
	s := p.spread(l, &size)
	for k, share := range []float64{2. / 16, 12. / 16, 2. / 16} {
		require.Equal(t, share, s.Share(s.Parts[k]))
	}
	require.Equal(t, size.Samples/4, s.sizes[1].Samples)
	require.InDelta(t, together.Device.Sample*workOf(&size, 0)/4, float64(s.took), 0.01*float64(s.took))
	defer keepBusy(p, 2, time.Hour)()
	busy := p.spread(l, &size)
	require.Equal(t, 2, busy.longest)
	require.Greater(t, busy.took, time.Hour)
	_, gpus := evaluated(t, p, l)
	require.Equal(t, 1, gpus, "one GPU is done before the part on a busy one")
}

// TestSpreadFails: when a call of a GPU fails, the others compute its part. Where all
// fail, the cores are left the leaf.
func TestSpreadFails(t *testing.T) {
	p, _, _ := open(t, 1, func(o *Options) { o.Constants = &together })
	want, _ := evaluated(t, p, spreadLeaf(t))
	p.Close()
	for what, gpus := range map[string]int{
		"cuLaunchKernel:5=719": 8, "cuLaunchKernel:20=719": 3, "cuMemcpyHtoDAsync_v2:3=2": 3, "cuStreamWaitEvent:7=999": 3, "cuMemcpyDtoHAsync_v2:2=719": 3,
	} {
		p, h, log := open(t, gpus, func(o *Options) { o.Constants, o.Retry = &together, time.Hour })
		h.Configure(what)
		got, n := evaluated(t, p, spreadLeaf(t))
		require.Equal(t, want, got, what)
		require.Equal(t, gpus, n, what)
		require.Equal(t, 1, log.Count("a GPU failed")+log.Count("a GPU is lost"), what)
		got, n = evaluated(t, p, spreadLeaf(t))
		require.Equal(t, want, got, what)
		require.Equal(t, gpus-1, n, what)
		p.Close()
		require.Zero(t, h.Held(), what)
	}
	p, h, _ := open(t, 2, func(o *Options) { o.Constants, o.Retry = &together, time.Hour })
	h.Configure("cuMemsetD8Async:1=2,cuLaunchKernel:1=2") // of one, and of the other: the later one is said
	o, err := p.Evaluate(t.Context(), spreadLeaf(t), nil)
	require.NoError(t, err)
	require.Regexp(t, "the GPU failed: (cuMemsetD8Async|cuLaunchKernel)", o.Declined)
}

// TestSpreadAgain: a leaf whose chunks one GPU has is spread once a few later ones win back what copying
// takes, and so is one that is cut otherwise. Then both find their chunks, however they alternate. What
// takes more to win back, leaves little of its copies, is small, or faster on cores is not.
func TestSpreadAgain(t *testing.T) {
	var pieces []*selection.Selection // a slab each
	for k := range 16 {
		s, err := synthetic.Counters(fmt.Sprintf("m%02d", k), 50, synthetic.ChunkSamples)
		require.NoError(t, err)
		pieces = append(pieces, s)
	}
	for _, gpus := range []int{2, 3, 8} {
		t.Run(fmt.Sprint(gpus, " GPUs"), func(t *testing.T) {
			sel, err := selection.Join(t.Context(), pieces...)
			require.NoError(t, err)
			leaf := func(groups int, group func(i int) int) *cpuexec.Leaf {
				l := leafOf(t, t.Context(), 800, "m")
				l.Selection, l.Groups, l.Forced = sel, groups, false
				for i := range l.GroupOf {
					l.GroupOf[i] = int32(group(i))
				}
				return l
			}
			one := leaf(1, func(int) int { return 0 })
			near, far := leaf(16, func(i int) int { return i / 50 }), leaf(16, func(i int) int { return i / 25 % 16 })
			apart := leaf(16, func(i int) int { return i % 16 })
			p, _, _ := open(t, gpus, nil)
			// ask says on how many GPUs a leaf is whose copies are won back in `repeats` leaves, and what they copied.
			ask := func(l *cpuexec.Leaf, repeats float64, change func(*Constants)) (n int, copied int64, reason string) {
				size := l.Size()
				c := Constants{Cores: Costs{Sample: 1e6}, Device: Costs{Sample: 1000}}
				c.Link = float64(size.Missing) / (c.Device.Sample * workOf(&size, 0) / 1e9) / (repeats + 1) / float64(gpus-1)
				if change != nil {
					change(&c)
				}
				p.model.Store(NewModel(c))
				o, err := p.Evaluate(t.Context(), l, nil)
				require.NoError(t, err)
				if o.Declined != "" {
					return 0, 0, o.Declined
				}
				return max(1, o.Choice.Parts), o.Choice.Stages.Copied, o.Reason
			}
			n, whole, _ := ask(one, 1, nil)
			require.Equal(t, 1, n, "one group")
			n, _, _ = ask(near, 2*repeats, nil)
			require.Equal(t, 1, n, "it takes too many to win it back")
			n, _, _ = ask(near, 1, func(c *Constants) { c.Device.Fixed = time.Second })
			require.Equal(t, 1, n, "it is small")
			n, _, reason := ask(near, 1, func(c *Constants) { c.Cores.Sample = 1 })
			require.Equal(t, 0, n, reason)
			n, copied, reason := ask(near, 4, nil)
			require.Equal(t, gpus, n, reason)
			require.Greater(t, copied, whole/3)
			require.Contains(t, reason, fmt.Sprint("once they have its chunks ", gpus, " GPUs are expected to be faster: "))
			n, copied, reason = ask(near, 1000, nil)
			require.Equal(t, gpus, n, "their chunks are there")
			require.Less(t, copied, whole/10)
			require.NotContains(t, reason, "once")
			n, copied, _ = ask(far, 4, nil)
			require.Equal(t, gpus, n)
			require.Greater(t, copied, whole/10)
			for round := range 4 {
				for _, l := range []*cpuexec.Leaf{near, far} {
					n, copied, _ = ask(l, 4, nil)
					require.Equal(t, gpus, n)
					require.Less(t, copied, whole/4, "tables alone, as chunks are packed")
					require.True(t, round < 2 || copied == 0, "chunks and tables are where they were")
				}
			}
			for range 3 {
				n, copied, _ = ask(apart, 4, nil)
			}
			require.Equal(t, gpus < 8, n == gpus, "of eight none keeps an eighth of a slab")
			require.Less(t, copied, whole/10)
		})
	}
}
