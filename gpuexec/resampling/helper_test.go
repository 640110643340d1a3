package resampling

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// on is an accelerator with a machine on the first device, which is closed with the test.
func on(t testing.TB, o pipeline.Options) *counting {
	m, err := pipeline.New(cudatest.Device(t), o)
	require.NoError(t, err)
	bound := boundOf(m)
	t.Cleanup(func() {
		require.NoError(t, m.Store.Check())
		require.Equal(t, bound, boundOf(m), "all memory that was lent was given back")
		require.NoError(t, m.Close())
	})
	return &counting{Alone: Alone{Machine: m}}
}

// chunks adds n samples to a series, every so many ms from 0 on, in chunks of 100.
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
	Alone
	computed, declined int
}

func (a *counting) Resample(ctx context.Context, t *resample.Task, consume func(*resample.Cells) error, forced bool) (resample.Outcome, error) {
	if reason := SuitsTask(t); reason != "" {
		a.declined++
		return resample.Outcome{Declined: reason}, nil
	}
	o, err := a.Alone.Resample(ctx, t, consume, forced)
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
