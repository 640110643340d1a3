package placement

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/plan"
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
	h.Configure("cuMemsetD8Async:1=2,cuLaunchKernel:1=2") // of one, and later of the other
	o, err := p.Evaluate(t.Context(), spreadLeaf(t), nil)
	require.NoError(t, err)
	require.Contains(t, o.Declined, "the GPU failed: cuLaunchKernel")
}
