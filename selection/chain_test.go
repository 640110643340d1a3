package selection

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// hinted is a sample and what is known of a counter reset before it.
type hinted struct {
	sample
	hint histogram.CounterResetHint
}

func drainHinted(t *testing.T, it chunkenc.Iterator) (out []hinted) {
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		s := hinted{sample: current(it, v)}
		switch v {
		case chunkenc.ValHistogram:
			_, h := it.AtHistogram(nil)
			s.hint = h.CounterResetHint
		case chunkenc.ValFloatHistogram:
			_, h := it.AtFloatHistogram(nil)
			s.hint = h.CounterResetHint
		}
		out = append(out, s)
	}
	require.NoError(t, it.Err())
	return out
}

// TestChainIsPrometheuss merges chunks at random that overlap in many ways and have
// different values at equal times, and compares with Prometheus's own iterator.
func TestChainIsPrometheuss(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		n := 2 + r.IntN(1<<r.IntN(8))
		b := NewBuilder(0)
		b.Series(name(0))
		grid, histograms := 1+r.Int64N(200), r.IntN(3) == 0
		for k := range n {
			e := encodings[r.IntN(2)]
			if histograms {
				e = encodings[r.IntN(len(encodings))]
			}
			ts := grid * r.Int64N(60)
			var times []int64
			for range 1 + r.IntN(20) {
				times = append(times, ts)
				ts += grid * (1 + r.Int64N(3))
			}
			add(t, b, e, times, func(ts int64) float64 { return rising(ts) + float64(100_000*k) })
		}
		s := &b.sel
		s.first = append(s.first, uint32(len(s.chunks)))
		cs := s.Chunks(0)
		its := make([]chunkenc.Iterator, len(cs))
		for k, c := range cs {
			its[k] = s.checked(name(0), c, math.MinInt64, math.MaxInt64)
		}
		want := drainHinted(t, storage.ChainSampleIteratorFromIterators(nil, its))
		got := drainHinted(t, newChain(s, name(0), cs, &watch{}))
		require.Equal(t, want, got, "seed %d, %d chunks", seed, n)
	}
}

// TestChainSeeks compares what Seek finds with what Next does.
func TestChainSeeks(t *testing.T) {
	b := NewBuilder(0)
	b.Series(name(0))
	for k := range int64(5) {
		add(t, b, chunkenc.EncXOR, timesBetween(100*k, 100*k+900, 70), rising)
	}
	s := &b.sel
	s.first = append(s.first, uint32(len(s.chunks)))
	all := drain(t, newChain(s, name(0), s.Chunks(0), &watch{}))
	for _, want := range all {
		it := newChain(s, name(0), s.Chunks(0), &watch{})
		require.NotEqual(t, chunkenc.ValNone, it.Seek(want.t))
		require.Equal(t, want, current(it, chunkenc.ValFloat))
		require.Equal(t, chunkenc.ValFloat, it.Seek(want.t-1), "it does not go back")
		require.Equal(t, want.t, it.AtT())
	}
	require.Equal(t, chunkenc.ValNone, newChain(s, name(0), s.Chunks(0), &watch{}).Seek(math.MaxInt64))
}

func TestChainOfCorruptChunks(t *testing.T) {
	for _, bad := range []int{0, 1, 2} {
		b := NewBuilder(0)
		b.Series(name(0))
		for k := range 3 {
			data := encode(t, chunkenc.EncXOR, timesBetween(0, 900, 100), rising)
			if k == bad {
				data = data[:len(data)-3]
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 900+int64(k), data))
		}
		_, err := b.Finish()
		var ce *CorruptError
		require.ErrorAs(t, err, &ce, bad)
		require.Equal(t, name(0), ce.Series)
	}
}

// piled returns a builder with n chunks of one series, of 120 samples each, in
// which at one time there is a sample of most of them.
func piled(t testing.TB, n int) *Builder {
	b := NewBuilder(0)
	b.Series(name(0))
	step := int64(n)
	data := make([]int64, 120)
	for k := range int64(n) {
		for i := range data {
			data[i] = k + int64(i)*step
		}
		require.NoError(t, b.Floats(data, make([]float64, len(data))))
	}
	return b
}

// TestManyOverlapsEndInTime: 100 000 chunks of one series that all overlap take seconds,
// and no longer than the time that there is for them.
func TestManyOverlapsEndInTime(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	for _, c := range []struct {
		name string
		run  func(context.Context) (*Selection, error)
	}{
		{"as they come", func(ctx context.Context) (*Selection, error) { return piled(t, n).Within(ctx).Finish() }},
		{"joined", func(ctx context.Context) (*Selection, error) { return Join(ctx, unmerged(t, n), unmerged(t, n)) }},
		{"of two sources", func(ctx context.Context) (*Selection, error) { return Merge(ctx, spread(t, n, 0), spread(t, n, 121)) }},
	} {
		for _, limit := range []time.Duration{time.Millisecond, 300 * time.Millisecond} {
			t.Run(fmt.Sprint(c.name, " ", limit), func(t *testing.T) {
				var late []time.Duration // a busy machine may hold up one attempt
				for len(late) < 3 {
					after, err := endedAfter(t, limit, c.run)
					if err == nil {
						return // it was faster
					}
					require.ErrorIs(t, err, context.Canceled)
					if after < 100*time.Millisecond {
						return
					}
					late = append(late, after)
				}
				t.Fatalf("it ended %v after its context", late)
			})
		}
	}
	if testing.Short() {
		return
	}
	b := piled(t, n)
	start := time.Now()
	s, err := b.Within(t.Context()).Finish()
	require.NoError(t, err)
	require.EqualValues(t, 120*n, s.NumSamples())
	require.Less(t, time.Since(start), 40*time.Second)
	t.Log(time.Since(start))
}

// endedAfter cancels a run after limit, beginning when it first looks at its context, so
// that the time for making the input does not count, and returns how long it went on.
func endedAfter(t *testing.T, limit time.Duration, run func(context.Context) (*Selection, error)) (time.Duration, error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan time.Time, 1)
	lazy := &startsLate{Context: ctx, start: func() {
		time.AfterFunc(limit, func() {
			ended <- time.Now()
			cancel()
		})
	}}
	_, err := run(lazy)
	over := time.Now()
	if err != nil && ctx.Err() == nil {
		return 0, err
	}
	return over.Sub(<-ended), err
}

// startsLate is a context that tells when it is first looked at.
type startsLate struct {
	context.Context
	start func()
}

func (c *startsLate) Err() error {
	if c.start != nil {
		c.start()
		c.start = nil
	}
	return c.Context.Err()
}

// unmerged is a selection of n chunks of a series each of which overlaps the next.
func unmerged(t testing.TB, n int) *Selection {
	s := piled(t, n).sel
	s.first = append(s.first, uint32(len(s.chunks)))
	return s.finish()
}

// spread is a selection of n chunks of one series that do not overlap each other, with
// samples 2 ms apart from start on. Each overlaps two of those of another one whose start is
// 121 ms later, and so all overlap through others.
func spread(t testing.TB, n int, start int64) *Selection {
	b := NewBuilder(0)
	b.Series(name(0))
	times := make([]int64, 120)
	for k := range int64(n) {
		for i := range times {
			times[i] = start + 2*(120*k+int64(i))
		}
		require.NoError(t, b.Floats(times, make([]float64, len(times))))
	}
	return finish(t, b)
}

// TestSeriesOfManyParts: selections that have few series in common are joined in a time
// that does not grow with the square of their number.
func TestSeriesOfManyParts(t *testing.T) {
	const n, each = 200, 300
	parts := make([]*Selection, n)
	for p := range parts {
		b := NewBuilder(0)
		for i := range each {
			l := labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%09d", i*n+p))
			if i%10 == 0 {
				l = labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%09d", i*n))
			}
			b.Series(l)
			add(t, b, chunkenc.EncXOR, []int64{int64(p)}, rising)
		}
		parts[p] = finish(t, b)
	}
	order := newPartsOrder(parts)
	var last labels.Labels
	series, all := 0, 0
	for {
		have := order.least()
		if len(have) == 0 {
			break
		}
		l := parts[have[0]].series[order.next[have[0]]]
		require.True(t, series == 0 || labels.Compare(last, l) < 0)
		last = l
		for k, p := range have {
			require.True(t, k == 0 || have[k-1] < p)
			require.True(t, labels.Equal(l, parts[p].series[order.next[p]]))
		}
		series++
		all += len(have)
		order.advance()
	}
	require.NotNil(t, order.heap)
	require.Equal(t, n*each, all)
	require.Equal(t, n*each*9/10+each/10, series)
	s := mustJoin(t, parts...)
	require.Equal(t, series, s.NumSeries())
	require.EqualValues(t, all, s.NumSamples())
}
