package gpuexec_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
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
	batches := 0
	for round := range some(*rounds) {
		r := rand.New(rand.NewPCG(*seed, uint64(round)))
		form, start, end := randomRequest(r)
		sel := random(t, r, 1+r.IntN(120), 1000*start, 1000*end)
		for k, a := range all {
			a.Last.Stages.Batches = 0
			check(t, a, selection.Single{Selection: sel}, form, fmt.Sprintf("-resampling.seed=%d, round %d, machine %d: %s", *seed, round, k, form))
			batches = max(batches, a.Last.Stages.Batches)
		}
	}
	if n := all[0].declined; n > some(*rounds)/10 {
		t.Errorf("%d requests of %d were declined", n, some(*rounds))
	}
	if batches < 3 {
		t.Errorf("%d batches at most", batches)
	}
}

// TestPackedRequests: once its chunks are packed, a request of any kind has the bits of the cores and reads no
// chunk.
func TestPackedRequests(t *testing.T) {
	for round := range some(3) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(*seed, 2<<32+uint64(round)))
			a := on(t, pipeline.Options{Memory: 512 << 20, Staging: 1 << 20})
			a.GoodBatch = 1 << 20
			sel := gpuexec.AnyKinds(t, r, 60+r.IntN(100), gpuexec.Kinds[:len(gpuexec.Kinds)-1], 60_000) // TestMixedZeros has -0
			ask := func(aggregates string) {
				layout := []string{"1m", "5m", "7m&closed=right", "1h&closed=right", "10m&period=25m", "10m&period=2m", "1d&timezone=Europe/Berlin"}[r.IntN(7)]
				form := "metric=m_total&start=32400&end=201600&every=" + layout + groupings[r.IntN(len(groupings))] + "&aggregates=" + aggregates
				check(t, a, selection.Single{Selection: sel}, form, form, examples(t)...)
			}
			ask("mean")
			require.Zero(t, a.Store.Packed())
			ask("mean")
			require.Positive(t, a.Store.Packed())
			gpuexec.SpoilSlabs(t, a.Machine, sel)
			for _, set := range append(sets, "rms", "rate:rms,max") {
				ask(set)
			}
		})
	}
}

// TestTilesThatFitAlone: of two tiles of packed series, one fits at a time with the keys of its
// samples.
func TestTilesThatFitAlone(t *testing.T) {
	a, b := on(t, pipeline.Options{Memory: 256 << 20, Staging: 8 << 20}), selection.NewBuilder(0)
	for i := range 40 {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%02d", i), "job", "a"))
		chunks(t, b, map[bool]int{true: 20_000, false: 1}[i%39 == 0], 1000, func(k int) float64 { return float64(k % 777) })
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	for range 3 {
		form := "metric=m&every=5m&start=0&end=20000&by=job&aggregates=median&reaggregate=max"
		check(t, a, selection.Single{Selection: sel}, form, form)
	}
	require.Positive(t, a.Store.Packed())
	require.Zero(t, a.declined)
}

// TestSplitRequests: random requests have the bits of the cores on any number of devices, also where parts
// fail behind some of their rows.
func TestSplitRequests(t *testing.T) {
	all, parts := gpuexec.NewSeveral(t, 8), map[int]int{}
	for round := range some(12) {
		r := rand.New(rand.NewPCG(*seed, 1<<32+uint64(round)))
		form, start, end := randomRequest(r)
		sel := random(t, r, 1+r.IntN(120), 1000*start, 1000*end)
		p := planned(t, form)
		want, err := resample.New(resample.Options{}).Run(t.Context(), selection.Single{Selection: sel}, p)
		require.NoError(t, err)
		for _, n := range []int{2, 3, 8} {
			what := fmt.Sprintf("-resampling.seed=%d, round %d, %d devices: %s", *seed, round, n, form)
			for failures := range 2 {
				s := all.Only(slices.Repeat([]float64{1}, n)...).Failing(failures, r.IntN(3))
				got, err := resample.New(resample.Options{Accelerator: s}).Run(t.Context(), selection.Single{Selection: sel}, p)
				if err != nil {
					require.ErrorContains(t, err, "not on the GPU", what)
					continue
				}
				if failures > 0 { // rows of a device that has failed are not counted
					got.Work = want.Work
				}
				same(t, want, got, what)
				got.Release()
				for _, n := range s.Parts {
					parts[n]++
				}
			}
		}
		want.Release()
	}
	t.Logf("requests by their number of parts: %v", parts)
	for _, n := range []int{1, 2, 3, 8} {
		require.Positive(t, parts[n], "requests in %d parts", n)
	}
}

// TestEveryAggregate compares each aggregate alone, of series and of groups, with the cores.
func TestEveryAggregate(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 256 << 20})
	sel := random(t, rand.New(rand.NewPCG(3, 4)), 40, 0, 36_000_000)
	for _, name := range (aggregate.Library{}).Names() {
		t.Run(name, func(t *testing.T) {
			for i, grouping := range groupings {
				if testing.Short() && i%3 > 0 {
					continue
				}
				form := someHours + name + ",rate:" + name + grouping
				check(t, a, selection.Single{Selection: sel}, form, form)
			}
		})
	}
	require.Zero(t, a.declined)
}

// TestMergedRuns: sums and squares of a group of more series than a round of a block has, at few buckets and at as many
// as have blocks of other shapes.
func TestMergedRuns(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 512 << 20})
	for _, shape := range []struct{ series, buckets int }{{300, 9}, {40, 2500}, {40, 17_000}} {
		sel := random(t, rand.New(rand.NewPCG(5, uint64(shape.buckets))), shape.series, 0, int64(1000*shape.buckets))
		for _, of := range []string{"sum", "std,max,last", "mean&reaggregate=sum"} {
			form := fmt.Sprintf("metric=m&every=1s&start=0&end=%d&by=&aggregates=%s", shape.buckets, of)
			check(t, a, selection.Single{Selection: sel}, form, form)
		}
	}
	require.Equal(t, 9, a.computed)
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

// buckets is the form of a request for a number of buckets, which lacks aggregates.
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
			for range some(18) {
				q := requests[r.IntN(len(requests))]
				// One request at a time may use an Alone.
				e := resample.New(resample.Options{Accelerator: &gpuexec.Alone{Machine: x}})
				result, err := e.Run(t.Context(), selection.Single{Selection: q.sel}, q.plan)
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

// TestRowsGivenBack: a request that fails gives back what it was lent, for any cause.
func TestRowsGivenBack(t *testing.T) {
	h := cudatest.Control(t)
	a := on(t, little)
	a.GoodBatch = 1 << 20
	sel, p := counters(t, 1000), planned(t, buckets(130)+"mean")
	run := func(ctx context.Context, o resample.Options) (*resample.Result, error) {
		o.Accelerator = a
		return resample.New(o).Run(ctx, selection.Single{Selection: sel}, p)
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

	a.Store.Clear()
	first := h.Calls("cuEventSynchronize")
	got, err = run(t.Context(), resample.Options{})
	require.NoError(t, err)
	got.Release()
	calls := h.Calls("cuEventSynchronize") - first
	for nth := 1; nth <= calls; nth += max(1, calls/10) {
		a.Store.Clear()
		h.Configure(fmt.Sprintf("cuEventSynchronize:%d=999", nth))
		_, err = run(t.Context(), resample.Options{})
		require.ErrorContains(t, err, "cuEventSynchronize: CUDA_ERROR_UNKNOWN (999)")
		_, _, stuck := a.Lender.Counts()
		require.Zero(t, stuck)
		require.Equal(t, before, boundOf(a.Machine), "call %d of %d", nth, calls)
	}
}

// on is an accelerator with a machine on the first device, which is closed with the test.
func on(t testing.TB, o pipeline.Options) *counting {
	m, err := pipeline.New(cudatest.Device(t), o)
	require.NoError(t, err)
	require.NoError(t, m.Kernels.Load(t.Context(), launch.Queries()...))
	bound := boundOf(m)
	t.Cleanup(func() {
		require.NoError(t, m.Store.Check())
		require.Equal(t, bound, boundOf(m), "all memory that was lent was given back")
		require.NoError(t, m.Close())
	})
	return &counting{Alone: gpuexec.Alone{Machine: m}}
}

// chunks adds n samples to a series, at a fixed distance from 0 on, in chunks of 100.
func chunks(t testing.TB, b *selection.Builder, n int, every int64, value func(k int) float64) {
	for at := 0; at < n; at += 100 {
		size := min(100, n-at)
		ts, vs := make([]int64, size), make([]float64, size)
		for k := range ts {
			ts[k], vs[k] = every*int64(at+k), value(at+k)
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[size-1], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
	}
}

// boundOf is how many buffers for rows are free, or may still be taken.
func boundOf(m *pipeline.Machine) int {
	free, left, _ := m.Lender.Counts()
	return free + left
}

// counting is Alone that counts what it has computed.
type counting struct {
	gpuexec.Alone
	computed, declined int
}

func (a *counting) Evaluate(ctx context.Context, l offload.Leaf, consume func(*offload.Rows) error) (offload.Outcome, error) {
	if reason := gpuexec.Suits(l); reason != "" {
		a.declined++
		return offload.Outcome{Declined: reason}, nil
	}
	o, err := a.Alone.Evaluate(ctx, l, consume)
	if err == nil {
		a.computed++
	}
	return o, err
}

// planned plans a request, which may define aggregates.
func planned(t testing.TB, form string, define ...custom.Source) *resample.Plan {
	l, err := custom.AddTo(aggregate.Library{}, define)
	require.NoError(t, err)
	f, err := url.ParseQuery(form)
	require.NoError(t, err)
	r, err := resample.Parse(f, time.UnixMilli(1_790_000_000_000), resample.Known{Parser: parser.NewParser(parser.Options{}), Aggregates: l})
	require.NoError(t, err, form)
	p, err := resample.NewPlan(r)
	require.NoError(t, err, form)
	return p
}

// random makes series whose samples are from start to end (ms) about, of chunks of all lengths:
// with gaps and values of all kinds.
func random(t testing.TB, r *rand.Rand, series int, start, end int64) *selection.Selection {
	b := selection.NewBuilder(0)
	odd := []float64{0, 0, 0.02, 0.3}[r.IntN(4)]
	mixed := r.IntN(3) == 0
	for i := range series {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%05d", i), "job", fmt.Sprint(r.IntN(4))))
		step := max(1, (end-start)/(1+r.Int64N(500)))
		at, v, kind := start-(end-start)/5+r.Int64N(step), 0.0, r.IntN(5)
		chunk := []int{1, 5, 30, 120}[r.IntN(4)]
		for at < end+(end-start)/5 {
			n := 1 + r.IntN(chunk)
			ts, vs := make([]int64, n), make([]float64, n)
			for k := range ts {
				at += 1 + step/2 + r.Int64N(step)
				if r.IntN(60) == 0 {
					at += step * r.Int64N(80)
				}
				v = randomValue(r, kind, v)
				ts[k], vs[k] = at, v
				if r.Float64() < odd {
					vs[k] = oddValues[r.IntN(len(oddValues))]
					if vs[k] == 0 {
						vs[k] = 0 // TestMixedZeros has the other zero
					}
				}
			}
			enc := chunkenc.EncXOR
			if mixed && r.IntN(2) == 0 {
				enc = chunkenc.EncXOR2
			}
			require.NoError(t, b.Chunk(enc, ts[0], ts[n-1], selectiontest.Chunk(t, enc, nil, ts, vs)))
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

var oddValues = []float64{
	math.NaN(), math.Inf(1), math.Inf(-1), math.Float64frombits(value.StaleNaN), math.Copysign(0, -1), 0, math.MaxFloat64, -math.MaxFloat64, 1e200, 5e-324,
}

func randomValue(r *rand.Rand, kind int, last float64) float64 {
	switch kind {
	case 0:
		return r.NormFloat64() * math.Pow(10, float64(r.IntN(8)))
	case 1:
		if r.IntN(50) == 0 {
			return 0
		}
		return last + float64(r.IntN(40))
	case 2:
		return float64(r.IntN(4))
	case 3:
		return 1e9 + r.Float64()
	}
	return 42
}

// same compares two results bit by bit, but for the bits of NaN.
func same(t testing.TB, want, got *resample.Result, what string) {
	require.Equal(t, len(want.Series), len(got.Series), what)
	for i, w := range want.Series {
		g := got.Series[i]
		require.Equal(t, w.Labels, g.Labels, what)
		require.Equal(t, len(w.Rows), len(g.Rows), what)
		for a := range w.Rows {
			name := want.Aggregates[a].Text
			require.Equal(t, w.Rows[a].Buckets, g.Rows[a].Buckets, "%s\n%s of %s", what, name, w.Labels)
			for k, v := range w.Rows[a].Values {
				x := g.Rows[a].Values[k]
				if math.Float64bits(v) != math.Float64bits(x) && (v == v || x == x) || resample.IsNull(v) != resample.IsNull(x) {
					require.Failf(t, "another value", "%s\n%s of %s in bucket %d: %v (%x) instead of %v (%x)",
						what, name, w.Labels, w.Rows[a].Buckets[k], x, math.Float64bits(x), v, math.Float64bits(v))
				}
			}
		}
	}
	require.Equal(t, want.Work.Samples, got.Work.Samples, what)
	require.Equal(t, want.Work.Chunks, got.Work.Chunks, what)
	require.Equal(t, want.Work.Runs, got.Work.Runs, what)
	require.Equal(t, want.Work.Bytes, got.Work.Bytes, what)
}

// check compares what a machine makes of a request with what the cores do.
func check(t testing.TB, a *counting, q storage.Queryable, form, what string, define ...custom.Source) {
	p := planned(t, form, define...)
	want, err := resample.New(resample.Options{}).Run(t.Context(), q, p)
	require.NoError(t, err, what)
	defer want.Release()
	before, declined := a.computed, a.declined
	got, err := resample.New(resample.Options{Accelerator: a}).Run(t.Context(), q, p)
	require.NoError(t, err, what)
	defer got.Release()
	if len(want.Series) > 0 && a.declined == declined {
		require.Equal(t, before+1, a.computed, "%s was not computed: %s", what, got.Work.Reason)
		require.Equal(t, "gpu", got.Explain().Executor, what)
	}
	same(t, want, got, what)
}

// TestGroupOrder: quantiles of groups of more values than a block keeps, which samples of them lead to
// soon, late, or not at all; in groups of few series and of many.
func TestGroupOrder(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 128 << 20})
	r := rand.New(rand.NewPCG(7, 7))
	values := []struct {
		name string
		of   func(series, i int) float64
	}{
		{"all the same", func(int, int) float64 { return 7 }},
		{"two", func(_, i int) float64 { return float64(i % 2) }},
		{"half, a few between, half", func(_, i int) float64 { return min(2, max(0, float64(i%1000)/2-248)) }},
		{"ten, one of which most", func(int, int) float64 { return math.Floor(max(0, r.NormFloat64()*3)) }},
		{"normal", func(int, int) float64 { return r.NormFloat64() }},
		{"rising", func(series, i int) float64 { return float64(series*1_000_000 + i) }},
		{"of all exponents", func(int, int) float64 { return math.Ldexp(r.Float64()-0.5, r.IntN(2000)-1000) }},
		{"odd", func(int, int) float64 { return oddValues[r.IntN(len(oddValues))] }},
		{"NaN for the most part", func(_, i int) float64 { return []float64{math.NaN(), math.NaN(), r.Float64(), math.NaN()}[i%4] }},
		// One in 21 of 20 000 samples is looked at first: these are small.
		{"misleading", func(_, i int) float64 {
			return map[bool]float64{true: -float64(i), false: float64(i)}[i%21 == 0]
		}},
		{"misleading, all the same", func(_, i int) float64 { return map[bool]float64{true: 0, false: 1}[i%21 == 0] }},
	}
	for _, shape := range []struct{ series, samples int }{{2, 20_000}, {9, 3000}, {300, 150}, {300, 20}} {
		for _, v := range values {
			b := selection.NewBuilder(0)
			for i := range shape.series {
				b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i), "job", "a"))
				samples := shape.samples
				if shape.series == 2 && i == 1 {
					samples = 1
				}
				chunks(t, b, samples, 100, func(k int) float64 { return v.of(i, k) })
			}
			sel, err := b.Finish()
			require.NoError(t, err)
			for _, of := range []string{"median", "median,95pct", "0pct,100pct,50pct,99.9pct,1pct"} {
				what := fmt.Sprintf("%s, %d series of %d, %s", v.name, shape.series, shape.samples, of)
				check(t, a, selection.Single{Selection: sel}, "metric=m&every=1h&start=0&end=3600&by=job&aggregates="+of, what)
			}
		}
	}
	require.Zero(t, a.declined)
	require.Equal(t, 4*len(values)*3, a.computed)
}

// TestDistinct: numbers of different values of groups that have few of them, and more than have a
// place in a block's table.
func TestDistinct(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 64 << 20})
	for _, different := range []int{1, 3, 2000, 4096, 4097, 30_000} {
		b := selection.NewBuilder(0)
		for i := range 9 {
			b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i), "job", fmt.Sprint(i%2)))
			chunks(t, b, 8000, 1000, func(k int) float64 {
				if v := k * (i + 1) % different; v != 0 {
					return float64(v)
				}
				return []float64{0, math.Copysign(0, -1), math.NaN()}[k%3]
			})
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		for _, fields := range []string{"nunique&by=job", "max,nunique,95pct,rate:nunique,median&by="} {
			check(t, a, selection.Single{Selection: sel}, "metric=m&every=1h&start=0&end=8000&aggregates="+fields, fmt.Sprint(different, " ", fields))
		}
	}
	require.Zero(t, a.declined)
	require.Equal(t, 12, a.computed)
}
