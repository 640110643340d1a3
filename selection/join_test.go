package selection

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// one returns a selection of one series with one chunk.
func one(t *testing.T, i int, e chunkenc.Encoding, times []int64, value func(int64) float64) *Selection {
	t.Helper()
	b := NewBuilder(0)
	b.Series(name(i))
	add(t, b, e, times, value)
	return finish(t, b)
}

func mustJoin(t *testing.T, parts ...*Selection) *Selection {
	t.Helper()
	s, err := Join(ctx, parts...)
	require.NoError(t, err)
	requireNormal(t, s)
	return s
}

func TestJoinOfNothing(t *testing.T) {
	require.Zero(t, mustJoin(t).NumSeries())
	require.Zero(t, mustJoin(t, nil, Empty()).NumSeries())
	a := one(t, 0, chunkenc.EncXOR, timesBetween(0, 900, 100), rising)
	require.Same(t, a, mustJoin(t, nil, a, Empty()))
}

func TestJoinUnitesSeries(t *testing.T) {
	a := mustJoin(t, one(t, 3, chunkenc.EncXOR, timesBetween(0, 900, 100), rising), one(t, 1, chunkenc.EncXOR, timesBetween(0, 900, 100), rising))
	b := mustJoin(t, one(t, 2, chunkenc.EncXOR, timesBetween(0, 900, 100), rising), one(t, 1, chunkenc.EncXOR, timesBetween(1000, 1900, 100), rising))
	for _, s := range []*Selection{mustJoin(t, a, b), mustJoin(t, b, a)} {
		require.Equal(t, 3, s.NumSeries())
		require.Equal(t, 4, s.NumChunks())
		require.Len(t, s.Chunks(0), 2)
		require.Len(t, all(t, s)[name(1).String()], 20)
		require.Len(t, s.slabs, len(a.slabs)+len(b.slabs), "no bytes are copied")
	}
}

func TestJoinKeepsRepeatedChunksOnce(t *testing.T) {
	for _, e := range encodings {
		a := one(t, 0, e, timesBetween(0, 900, 100), rising)
		b := one(t, 0, e, timesBetween(0, 900, 100), rising)
		s := mustJoin(t, a, b, a)
		require.Equal(t, 1, s.NumChunks(), e)
		require.Equal(t, all(t, a), all(t, s))
	}
}

// TestJoinGrownChunk joins every pair of states of a growing chunk.
func TestJoinGrownChunk(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	values := func(int64) float64 { return []float64{0, 1, 1, math.Pi, 1e300, math.NaN()}[r.IntN(6)] }
	for _, e := range encodings {
		value := rising
		if e == chunkenc.EncXOR || e == chunkenc.EncXOR2 {
			memo := map[int64]float64{}
			value = func(t int64) float64 {
				if _, ok := memo[t]; !ok {
					memo[t] = values(t)
				}
				return memo[t]
			}
		}
		times := timesBetween(0, 4000, 100)
		times[7] += 13
		grown := one(t, 0, e, times, value)
		for n := 1; n <= len(times); n++ {
			early := one(t, 0, e, times[:n], value)
			for _, s := range []*Selection{mustJoin(t, early, grown), mustJoin(t, grown, early)} {
				require.Equal(t, all(t, grown), all(t, s), "%s, %d samples", e, n)
				if e == chunkenc.EncXOR {
					require.Equal(t, 1, s.NumChunks())
					require.Equal(t, grown.Bytes(grown.Chunks(0)[0]), s.Bytes(s.Chunks(0)[0]), "the bytes are those that arrived")
				}
			}
		}
	}
}

// TestJoinOverlaps compares the union of overlapping chunks with one made of
// samples.
func TestJoinOverlaps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 300 {
		e := encodings[r.IntN(len(encodings))]
		want := map[int64]bool{}
		var parts []*Selection
		for range 2 + r.IntN(4) {
			var times []int64
			for ts := r.Int64N(3000); len(times) < 1+r.IntN(60); ts += 1 + r.Int64N(200) {
				times = append(times, ts)
				want[ts] = true
			}
			parts = append(parts, one(t, r.IntN(2)*0, e, times, rising))
		}
		s := mustJoin(t, parts...)
		got := all(t, s)[name(0).String()]
		require.Len(t, got, len(want))
		for _, v := range got {
			require.True(t, want[v.T])
			if withST(e) {
				require.Equal(t, v.T-1000, v.ST)
			}
		}
		for i, p := range parts {
			requireNormal(t, p)
			require.NotEmpty(t, all(t, p), "part %d is left as it was", i)
		}
	}
}

func TestJoinMixedEncodingsThatOverlap(t *testing.T) {
	a := one(t, 0, chunkenc.EncXOR, timesBetween(0, 900, 100), rising)
	b := one(t, 0, chunkenc.EncHistogram, timesBetween(450, 1350, 100), rising)
	got := all(t, mustJoin(t, a, b))[name(0).String()]
	require.Len(t, got, 20)
	require.True(t, slices.IsSortedFunc(got, func(a, b sample) int { return int(a.T - b.T) }))
}

// TestJoinOverlapsInProportion checks that merging does not take much more
// memory than what is merged.
func TestJoinOverlapsInProportion(t *testing.T) {
	const n = 500
	a, b := NewBuilder(0), NewBuilder(0)
	for i := range n {
		a.Series(name(i))
		add(t, a, chunkenc.EncXOR, timesBetween(0, 12_000, 100), rising)
		b.Series(name(i))
		add(t, b, chunkenc.EncXOR, timesBetween(6050, 18_000, 100), rising)
	}
	x, y := finish(t, a), finish(t, b)
	s := mustJoin(t, x, y)
	require.Less(t, s.SizeBytes(), 4*(x.SizeBytes()+y.SizeBytes()))
	require.Less(t, len(s.slabs), 20)
	for _, ss := range all(t, s) {
		require.Len(t, ss, 121+120)
	}
}

func TestJoinCorruptOverlap(t *testing.T) {
	b := NewBuilder(0)
	b.Series(name(0))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 1000, []byte{0, 9, 1, 2, 3}))
	bad := finish(t, b)
	_, err := Join(ctx, bad, one(t, 0, chunkenc.EncXOR, timesBetween(500, 900, 100), rising))
	var ce *CorruptError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, name(0), ce.Series)
}

// TestJoinOfSlices cuts a selection in pieces and joins them again.
func TestJoinOfSlices(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 30 {
		s := random(t, r, 12)
		var parts []*Selection
		at := int64(0)
		for at < 60_000 {
			next := at + 1 + r.Int64N(10_000)
			parts = append(parts, s.Slice(at, next))
			at = next
		}
		parts = append(parts, s.Slice(at, math.MaxInt64))
		r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		j := mustJoin(t, parts...)
		require.Equal(t, all(t, s), all(t, j))
		require.Equal(t, s.NumChunks(), j.NumChunks())
		require.LessOrEqual(t, len(j.slabs), len(s.slabs))
	}
}

// BenchmarkJoinTail joins what is kept of 1400 series with what a fetch brought of
// their newest samples, as every query does that asks for these: a chunk of the same
// series that comes behind the kept ones, or one that a part of the last kept one
// is in as well.
func BenchmarkJoinTail(b *testing.B) {
	const (
		series = 1400
		step   = 15_000
		length = 120 * step
	)
	data := encode(b, chunkenc.EncXOR, timesBetween(0, length-step, step), rising)
	label := func(i int) labels.Labels {
		return labels.FromStrings("__name__", "http_requests_total", "cluster", "eu-west-1", "code", "200", "handler", "/api/v1/query",
			"instance", fmt.Sprintf("host-%05d.example.org:9090", i), "job", "job-1", "method", "GET", "namespace", "default",
			"pod", fmt.Sprintf("api-6d4cf56db6-%05d", i))
	}
	build := func(series []labels.Labels, from, chunks int) *Selection {
		s := NewBuilder(0)
		for _, l := range series {
			s.Series(l)
			for k := range chunks {
				start := int64(from+k) * length
				if err := s.Chunk(chunkenc.EncXOR, start, start+length-step, data); err != nil {
					b.Fatal(err)
				}
			}
		}
		return finish(b, s)
	}
	var expected, equal, others []labels.Labels
	for i := range series {
		expected, equal = append(expected, label(i)), append(equal, label(i))
		if i%100 == 50 {
			others = append(others, label(i+series))
			continue
		}
		others = append(others, expected[i])
	}
	for _, chunks := range []int{12, 50} {
		kept := build(expected, 0, chunks).WithMemos(int64(chunks) * length)
		for _, c := range []struct {
			name string
			tail *Selection
		}{
			{"expected", build(expected, chunks, 1)},
			{"equal", build(equal, chunks, 1)},
			{"two", build(expected, chunks, 2)},
			{"others", build(others, chunks, 1)},
			{"again", build(expected, chunks-1, 2)},
		} {
			b.Run(fmt.Sprintf("%d,%s", chunks, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Join(ctx, kept, c.tail); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/series, "ns/series")
			})
		}
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

// TestManyOverlapsEndInTime: thousands of chunks of one series that all overlap take no longer
// than the time that there is for them.
func TestManyOverlapsEndInTime(t *testing.T) {
	const n = 20_000
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
	s, err := piled(t, n).Within(t.Context()).Finish()
	require.NoError(t, err)
	require.EqualValues(t, 120*n, s.NumSamples())
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
	b := piled(t, n)
	s := b.sel
	s.first, s.chunks, s.slabs = append(s.first, uint32(len(b.Chunks))), b.Chunks, b.Slabs()
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

// drawPart makes a selection of some of n series, each with a few chunks from about
// start on. overlap says that they may begin before that.
func drawPart(t testing.TB, r *rand.Rand, n, most int, start int64, overlap bool, encodings []chunkenc.Encoding) *Selection {
	b := NewBuilder(0)
	for i := range n {
		if r.IntN(4) == 0 {
			continue
		}
		b.Series(name(i))
		ts := start + r.Int64N(500)
		if overlap && r.IntN(2) == 0 {
			ts -= r.Int64N(8000)
		}
		for range r.IntN(most + 1) {
			var times []int64
			for range 1 + r.IntN(9) {
				times = append(times, ts)
				ts += 1 + r.Int64N(300)
			}
			add(t, b, encodings[r.IntN(len(encodings))], times, rising)
		}
	}
	return finish(t, b)
}

// byUnion is the union of two parts in one table.
func byUnion(t testing.TB, a, b *Selection) *Selection {
	t.Helper()
	s, err := union(ctx, present([]*Selection{a, b}), max(a.KeptUntil, b.KeptUntil), separate, false)
	require.NoError(t, err)
	return s
}

// requireSame checks that two selections have the same chunks and say the same of
// themselves.
func requireSame(t testing.TB, want, got *Selection) {
	t.Helper()
	requireNormal(t, got)
	require.Equal(t, want.Series(), got.Series())
	for i := range want.NumSeries() {
		a, b := want.Chunks(i), got.Chunks(i)
		require.Len(t, b, len(a))
		for k := range a {
			require.Equal(t, want.Bytes(a[k]), got.Bytes(b[k]))
			require.Equal(t, [2]int64{a[k].MinT, a[k].MaxT}, [2]int64{b[k].MinT, b[k].MaxT})
		}
		require.True(t, want.Memo(i) == got.Memo(i), "the memo of series %d", i)
	}
	require.Equal(t, want.NumChunks(), got.NumChunks())
	require.Equal(t, want.NumSamples(), got.NumSamples())
	require.Equal(t, want.PayloadBytes(), got.PayloadBytes())
	require.Equal(t, want.encodings, got.encodings)
	require.Equal(t, want.KeptUntil, got.KeptUntil)
}

// TestExtend compares what is joined by putting chunks behind a table with what is
// joined in one table, and what is made of either.
func TestExtend(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 4))
	extended := 0
	for round := range 500 {
		use := encodings
		if round%2 == 0 {
			e := r.IntN(len(encodings))
			use = encodings[e : e+1]
		}
		base := drawPart(t, r, 12, 8, 0, false, use)
		if r.IntN(2) == 0 {
			base = base.WithMemos(r.Int64N(9000))
		}
		tail := drawPart(t, r, 14, 2, 15_000, r.IntN(2) == 0, use)
		if r.IntN(3) == 0 {
			tail = mustJoin(t, tail, base.Slice(10_000, math.MaxInt64)) // chunks that both have
		}
		if tail.NumSeries() == 0 || base.NumSeries() == 0 || tail.memos != nil || 2*tail.NumChunks() > base.NumChunks() {
			continue
		}
		got, err := extend(ctx, base, tail, max(base.KeptUntil, tail.KeptUntil))
		require.NoError(t, err)
		if got == nil {
			continue
		}
		extended++
		want := byUnion(t, base, tail)
		requireSame(t, want, got)
		requireSame(t, want, mustJoin(t, base, tail))
		requireSame(t, want, got.flat())
		requireNormal(t, base)
		require.Equal(t, got.flat().tableBytes()-got.tableBytes(), got.flat().SizeBytes()-got.SizeBytes())

		mint := r.Int64N(20_000)
		maxt := mint + r.Int64N(8000)
		for i := range want.NumSeries() {
			require.Len(t, got.Overlapping(i, mint, maxt), len(want.Overlapping(i, mint, maxt)))
		}
		require.Equal(t, all(t, want), all(t, got))
		requireSame(t, want.Slice(mint, maxt), got.Slice(mint, maxt))
		requireSame(t, want.Slice(0, math.MaxInt64), got.Slice(0, math.MaxInt64))
		a, err := want.Cut(ctx, mint, maxt)
		require.NoError(t, err)
		b, err := got.Cut(ctx, mint, maxt)
		require.NoError(t, err)
		requireSame(t, a, b)
		some := func(l labels.Labels) bool { return l.Get("i") > "0005" }
		requireSame(t, want.Filter(some), got.Filter(some))
		requireSame(t, want, got.Compact(0.9))
		kept := got.WithMemos(16_000)
		require.Nil(t, kept.behind, "what is kept is one table")
		require.Equal(t, want.NumSamples(), kept.NumSamples())

		more := drawPart(t, r, 12, 1, 20_000, r.IntN(2) == 0, use)
		if more.NumSeries() > 0 {
			requireSame(t, byUnion(t, want, more), mustJoin(t, got, more))
			requireSame(t, byUnion(t, more, want), mustJoin(t, more, got))
			x, err := Merge(ctx, more, want)
			require.NoError(t, err)
			y, err := Merge(ctx, more, got)
			require.NoError(t, err)
			requireSame(t, x, y)
		}
	}
	require.Greater(t, extended, 250)
}

// TestExtendSharesTheTable: what comes behind a large selection does not make its table
// be copied.
func TestExtendSharesTheTable(t *testing.T) {
	build := func(series, from, chunks int) *Selection {
		b := NewBuilder(0)
		for i := range series {
			b.Series(name(i))
			for k := range chunks {
				add(t, b, chunkenc.EncXOR, timesBetween(int64(from+k)*1000, int64(from+k)*1000+900, 100), rising)
			}
		}
		return finish(t, b)
	}
	base := build(100, 0, 20).WithMemos(20_000)
	for _, tail := range []*Selection{build(100, 20, 1), build(101, 20, 2), build(50, 19, 2)} {
		s := mustJoin(t, base, tail)
		require.Same(t, &base.chunks[0], &s.chunks[0])
		require.Equal(t, base.Origin(base.Chunks(0)[3]), s.Origin(s.Chunks(0)[3]))
		require.Same(t, &base.chunks[3], &s.Overlapping(0, 3000, 4999)[0])
		require.Same(t, base.Memo(7), s.Memo(7))
	}
	joined := mustJoin(t, base, build(100, 20, 1))
	require.Same(t, &base.Series()[0], &joined.Series()[0])
	require.NotNil(t, mustJoin(t, base, build(101, 20, 2)).Memo(99))
	require.Nil(t, mustJoin(t, base, build(101, 20, 2)).Memo(100))
	require.Nil(t, mustJoin(t, base, build(100, 20, 11)).behind, "as much again is not put behind")
}
