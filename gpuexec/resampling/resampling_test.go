package resampling

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

var (
	rounds = flag.Int("resampling.rounds", 50, "requests of TestRandom, and of TestRandomCustom")
	seed   = flag.Uint64("resampling.seed", 1, "seed of TestRandom")
)

// some is a third of n in short runs.
func some(n int) int {
	if testing.Short() {
		return n / 3
	}
	return n
}

var (
	layouts = []string{"every=1m", "every=7s", "every=5m&closed=right", "every=1m&period=150s", "every=1m&period=150s&closed=right", "every=1m&period=20s&label=right", "every=90s&offset=13s&origin=1111.5",
		"every=1d&timezone=Europe/Berlin", "every=1d&timezone=America/Havana&closed=right", "every=1w", "every=1M&timezone=Australia/Lord_Howe", "every=1d&period=1w&timezone=Europe/Berlin", "every=1M&period=1w", "every=1y"}
	groupings = []string{"", "", "&by=job", "&without=i", "&by=", "&by=job&reaggregate=sum", "&reaggregate=std", "&reaggregate=mean&by=job", "&reaggregate=max&without=job", "&by=job&reaggregate=median", "&reaggregate=median"}
	fillings  = []string{"", "", "&fill=null", "&fill=prev", "&fill=linear", "&fill=-1.5"}
	sets      = []string{
		"count", "sum,mean", "median,95pct,0pct,100pct,33.3pct,99pct", "nunique,median", "count,max,median,rate:median,rate:99.9pct", "min,max,range", "first,last", "std,var", "time_weighted_mean", "mean", "rate:sum,rate:max",
		strings.Join(aggregate.Library{}.Names(), ","), "rate:" + strings.Join(aggregate.Library{}.Names(), ",rate:"),
	}
)

// randomRequest is a form over a time that buckets are found in, around a change of clocks, a leap
// day, or any; and that time, in s.
func randomRequest(r *rand.Rand) (form string, start, end int64) {
	layout := layouts[r.IntN(len(layouts))]
	around := []int64{1_774_746_000, 1_793_494_800, 1_709_164_800, 1_700_000_000 + r.Int64N(1e7)}[r.IntN(4)]
	length := map[byte]int64{'s': 60, 'm': 300, 'd': 86400, 'w': 7 * 86400, 'M': 31 * 86400, 'y': 366 * 86400}
	unit := byte('s')
	for i := len("every="); i < len(layout) && layout[i] != '&'; i++ {
		unit = layout[i]
	}
	buckets := 1 + r.Int64N(40)
	start = around - buckets*length[unit] + r.Int64N(length[unit])
	end = around + length[unit]*(1+buckets)
	form = fmt.Sprintf("metric=m&%s&aggregates=%s&start=%d&end=%d%s%s", layout, sets[r.IntN(len(sets))], start, end, groupings[r.IntN(len(groupings))], fillings[r.IntN(len(fillings))])
	return form, start, end
}

// TestRandom compares random requests over random series with the cores, with little memory, so
// that there are several batches and rows find no memory to stay in, and with much.
func TestRandom(t *testing.T) {
	all := []*counting{on(t, pipeline.Options{Memory: 256 << 20, Staging: 8 << 20, Rows: 2 * 8 * pinned.BufferValues}), on(t, pipeline.Options{Memory: 512 << 20})}
	all[0].GoodBatch = 1 << 18
	defer func() { fusedLongest = 1 }()
	batches, fused := 0, 0
	for round := range some(*rounds) {
		r := rand.New(rand.NewPCG(*seed, uint64(round)))
		form, start, end := randomRequest(r)
		sel := random(t, r, 1+r.IntN(120), 1000*start, 1000*end)
		fusedLongest = []float64{0, 1, 3, 1e9}[r.IntN(4)]
		for k, a := range all {
			a.Last.Stages.Batches = 0
			check(t, a, synthetic.Storage{Selection: sel}, form, fmt.Sprintf("-resampling.seed=%d, round %d, machine %d: %s", *seed, round, k, form))
			batches = max(batches, a.Last.Stages.Batches)
			if a.Last.Stages.Fused {
				fused++
			}
		}
	}
	if n := all[0].declined; n > some(*rounds)/10 {
		t.Errorf("%d requests of %d were declined", n, some(*rounds))
	}
	if fused < some(*rounds)/10 {
		t.Errorf("%d requests were counted while chunks were decoded", fused)
	}
	if batches < 3 {
		t.Errorf("%d batches at most", batches)
	}
}

// TestEveryAggregate compares each aggregate alone, of series and of groups, with the cores.
func TestEveryAggregate(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 256 << 20})
	sel := random(t, rand.New(rand.NewPCG(3, 4)), 40, 0, 36_000_000)
	for _, name := range (aggregate.Library{}).Names() {
		t.Run(name, func(t *testing.T) {
			for _, grouping := range groupings {
				form := someHours + name + ",rate:" + name + grouping
				check(t, a, synthetic.Storage{Selection: sel}, form, form)
			}
		})
	}
	require.Zero(t, a.declined)
}

// free is how many buffers for rows wait to be lent.
func free(m *pipeline.Machine) int {
	n, _, _ := m.Lender.Counts()
	return n
}

// spoilReturned changes what is given back, for one test.
func spoilReturned(t *testing.T) {
	pinned.SpoilReturned = func(b *pinned.Buffer) {
		for k := range b {
			b[k] = math.Float64frombits(0xDEAD_BEEF_0BAD_CAFE)
		}
	}
	t.Cleanup(func() { pinned.SpoilReturned = nil })
}

// counters are series with a value in each of the first 149 buckets of requests over them.
func counters(t *testing.T, series int) *selection.Selection {
	sel, err := synthetic.Counters("m", series, 600)
	require.NoError(t, err)
	return sel
}

// buckets is the form of a request for so many buckets, which lacks aggregates.
func buckets(n int) string {
	start := synthetic.Start / 60_000 * 60
	return fmt.Sprintf("metric=m&every=1m&start=%d&end=%d&aggregates=", start+60, start+60*n)
}

// TestRowsStay: the rows of several requests at once stay as they are until their results are
// released, whatever comes back after them, and the memory is lent again. Where it is all lent, rows
// come to other memory.
func TestRowsStay(t *testing.T) {
	spoilReturned(t)
	r := rand.New(rand.NewPCG(71, 72))
	x := on(t, pipeline.Options{Memory: 96 << 20, Staging: 1 << 20, Rows: 6 * 8 * pinned.BufferValues}).Machine
	x.GoodBatch = 1 << 20
	type request struct {
		sel  *selection.Selection
		plan *resample.Plan
		want *resample.Result
	}
	var requests []request
	add := func(sel *selection.Selection, form string) {
		want, err := over(t, t.Context(), nil, sel, form)
		require.NoError(t, err)
		requests = append(requests, request{sel, planned(t, form), want})
	}
	for _, series := range []int{3, 300, 1000} {
		sel := counters(t, series)
		add(sel, buckets(100)+"mean")
		add(sel, buckets(200)+"count,max,rate:sum&fill=null") // in place
		add(random(t, r, series, 0, 36_000_000), someHours+"min,last,median")
	}
	var wg sync.WaitGroup
	for k := range 3 {
		r := rand.New(rand.NewPCG(73, uint64(k)))
		wg.Go(func() {
			var held []request
			var got []*resample.Result
			for range 20 {
				q := requests[r.IntN(len(requests))]
				// One request at a time may use an Alone.
				e := resample.New(resample.Options{Accelerator: &Alone{Machine: x}})
				result, err := e.Run(t.Context(), synthetic.Storage{Selection: q.sel}, q.plan)
				if err != nil {
					t.Error(err)
					return
				}
				if held, got = append(held, q), append(got, result); len(got) > 2 {
					same(t, held[0].want, got[0], "long after")
					got[0].Release()
					held, got = held[1:], got[1:]
				}
			}
			for i := range got {
				same(t, held[i].want, got[i], "at last")
				got[i].Release()
			}
		})
	}
	wg.Wait()
	require.Positive(t, free(x))
}

// TestRowsOfFewValues: rows that are mostly empty do not keep memory from others.
func TestRowsOfFewValues(t *testing.T) {
	spoilReturned(t)
	a := on(t, pipeline.Options{Memory: 96 << 20, Staging: 6 << 20})
	sel := counters(t, 300)
	for n, stays := range map[int]bool{100: true, 200: true, 400: false} {
		form := buckets(n) + "mean"
		want, err := over(t, t.Context(), nil, sel, form)
		require.NoError(t, err)
		before := boundOf(a.Machine)
		got, err := over(t, t.Context(), a, sel, form)
		require.NoError(t, err)
		same(t, want, got, form)
		require.Equal(t, stays, boundOf(a.Machine) < before, form)
		got.Release()
		require.Equal(t, before, boundOf(a.Machine), form)
	}
}

// TestRowsGivenBack: a request that fails gives back what it was lent, whoever is why.
func TestRowsGivenBack(t *testing.T) {
	h := cudatest.Control(t)
	a := on(t, little)
	a.GoodBatch = 1 << 20
	sel, p := counters(t, 1000), planned(t, buckets(130)+"mean")
	run := func(ctx context.Context, o resample.Options) (*resample.Result, error) {
		o.Accelerator = a
		return resample.New(o).Run(ctx, synthetic.Storage{Selection: sel}, p)
	}
	before := boundOf(a.Machine)
	got, err := run(t.Context(), resample.Options{})
	require.NoError(t, err)
	values := int(got.Values())
	require.Greater(t, a.Last.Stages.Batches, 2)
	require.Less(t, boundOf(a.Machine), before)
	got.Release()
	got.Release() // is of no consequence
	require.Equal(t, before, boundOf(a.Machine))
	for _, most := range []int{1, values / 2, values - 1} {
		_, err := run(t.Context(), resample.Options{MaxSamples: most})
		require.ErrorContains(t, err, "query processing would load too many samples")
		require.Equal(t, before, boundOf(a.Machine), "%d of %d", most, values)
	}
	_, err = run(t.Context(), resample.Options{MaxMemory: int64(4 * values)})
	require.ErrorContains(t, err, "query needs more than")
	require.Equal(t, before, boundOf(a.Machine))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = run(ctx, resample.Options{})
	require.Error(t, err)
	require.Equal(t, before, boundOf(a.Machine))

	first := h.Calls("cuEventSynchronize")
	got, err = run(t.Context(), resample.Options{})
	require.NoError(t, err)
	got.Release()
	calls := h.Calls("cuEventSynchronize") - first
	for nth := 1; nth <= calls; nth += max(1, calls/10) {
		h.Configure(fmt.Sprintf("cuEventSynchronize:%d=999", nth))
		_, err = run(t.Context(), resample.Options{})
		require.ErrorContains(t, err, "cuEventSynchronize: CUDA_ERROR_UNKNOWN (999)")
		_, _, stuck := a.Lender.Counts()
		require.Zero(t, stuck)
		require.Equal(t, before, boundOf(a.Machine), "call %d of %d", nth, calls)
	}
}
