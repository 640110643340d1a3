package column

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
	"github.com/promwarp/promwarp/selection"
)

// TestSizeOfWhatIsGone: what columns took is taken off once the collector has been at work, as often
// as it has, and what is retained meanwhile counts at once.
func TestSizeOfWhatIsGone(t *testing.T) {
	h := NewSet(1 << 30)
	require.Zero(t, h.SizeBytes())
	for range 3 {
		all := retainMany(t, h, 100)
		full := h.SizeBytes()
		require.Greater(t, full, int64(100*1000*4))
		all = append(all, retainMany(t, h, 100)...)
		require.Greater(t, h.SizeBytes(), full)
		runtime.KeepAlive(all)
		all = nil
		runtime.GC()
		require.Zero(t, h.SizeBytes())
		require.Empty(t, h.ring)
		require.Empty(t, h.times)
	}
}

// retainMany has h retain columns of a thousand samples in new entries.
func retainMany(t testing.TB, h *Set, n int) []*entry {
	all := make([]*entry, n)
	for i := range all {
		all[i] = &entry{}
		cols := &decode.Buffer{Times: make([]int64, 1000), Values: make([]float64, 1000)}
		for k := range cols.Times {
			cols.Times[k], cols.Values[k] = int64(k*15_000+i), float64(k)
		}
		require.NotNil(t, h.retain(all[i], 0, nil, cols))
	}
	return all
}

// TestFirstUse: what is used for the first time takes free memory and no other's place, and is the
// first to make room for what is used again.
func TestFirstUse(t *testing.T) {
	b := selection.NewBuilder(0)
	for i := range 5 {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
		times, values := make([]int64, 1000), make([]float64, 1000)
		for k := range times {
			times[k], values[k] = int64(15_000*k), float64(k)/7
		}
		require.NoError(t, b.Floats(times, values))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	sel = sel.WithMemos(math.MaxInt64)
	h := NewSet(30_000) // two and a bit of these columns
	read := func(i int, partial bool) (decoded int64) {
		var r Reader
		_, err := r.Load(&Request{Set: h, Tick: h.Tick(), Sel: sel, Maxt: math.MaxInt64, Partial: partial}, i)
		require.NoError(t, err)
		return r.Stats.Samples
	}
	load := func(i int) (decoded int64) { return read(i, false) }
	retained := func() (all []int) {
		for i := range sel.NumSeries() {
			if IsDecoded(sel.Memo(i)) {
				all = append(all, i)
			}
		}
		return all
	}
	require.EqualValues(t, 1000, load(0))
	require.Zero(t, load(0), "at the second look")
	for range 2 * firstUse {
		h.Tick()
	}
	load(1)
	require.Equal(t, []int{0, 1}, retained())
	load(2)
	require.Equal(t, []int{0, 1}, retained(), "there is no room")
	require.Zero(t, load(0))
	load(3)
	load(3)
	require.Equal(t, []int{0, 3}, retained(), "what was used once has gone")
	h = NewSet(1 << 20)
	read(4, true)
	require.Equal(t, []int{0, 3}, retained(), "the first use was for some of the steps")
	read(4, true)
	require.Equal(t, []int{0, 3, 4}, retained())
}

// TestStaleMarkers: of a series with stale markers, the columns that a query asked for are retained,
// with the markers or without, each beside the other; of one without markers, both are one.
func TestStaleMarkers(t *testing.T) {
	stale := math.Float64frombits(value.StaleNaN)
	b := selection.NewBuilder(0)
	for i, values := range [][]float64{{1, 2, stale, 4, 3}, {1, 2, 3, 4, 5}} {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
		require.NoError(t, b.Floats([]int64{0, 10, 20, 30, 40}, values))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	sel = sel.WithMemos(math.MaxInt64)
	h := NewSet(1 << 20)
	var r Reader
	for _, c := range []struct {
		series, decoded int
		keepStale       bool
		values          []float64
	}{
		{0, 5, false, []float64{1, 2, 4, 3}},
		{0, 0, false, []float64{1, 2, 4, 3}},
		{0, 5, true, []float64{1, 2, stale, 4, 3}},
		{0, 0, true, []float64{1, 2, stale, 4, 3}},
		{0, 0, false, []float64{1, 2, 4, 3}},
		{1, 5, true, []float64{1, 2, 3, 4, 5}},
		{1, 0, false, []float64{1, 2, 3, 4, 5}},
	} {
		r.Reset(false)
		got, err := r.Load(&Request{Set: h, Tick: h.Tick(), Sel: sel, Maxt: math.MaxInt64, KeepStale: c.keepStale}, c.series)
		require.NoError(t, err)
		exacttest.RequireSame(t, c.values, got.Values, "samples")
		require.EqualValues(t, c.decoded, r.Stats.Samples)
		require.Equal(t, c.series == 0 && c.keepStale, len(got.Stale([]int32{0, 1, 3, 3, 5}, nil)) == 1)
		require.Equal(t, []int32{int32(len(c.values) - 1)}[:1-c.series], got.Resets([]int32{0}, []int32{int32(len(c.values))}, []int32{}))
	}
}

// TestShrink: the columns that were not used for longest go, no more of them than it takes,
// and the account is of those that stay.
func TestShrink(t *testing.T) {
	h := NewSet(1 << 30)
	var all []*entry
	for i := range 10 {
		s := &entry{}
		s.used.Store(int64(10 - i)) // the first was used last
		cols := &decode.Buffer{Times: make([]int64, 1000), Values: make([]float64, 1000)}
		for k := range cols.Times {
			cols.Times[k], cols.Values[k] = int64(k*15+i), float64(k)/3
		}
		require.NotNil(t, h.retain(s, 0, nil, cols))
		all = append(all, s)
	}
	before := h.SizeBytes()
	freed := h.Shrink(before / 4)
	require.GreaterOrEqual(t, freed, before/4)
	require.Less(t, freed, before/2)
	require.Equal(t, before-freed, h.SizeBytes())
	kept := 0
	for i, s := range all {
		if s.plain.Load() != nil {
			require.Equal(t, i, kept, "those used last stay")
			kept++
		}
	}
	require.Positive(t, kept)
	require.Less(t, kept, 10)
	require.Equal(t, before-freed, h.Shrink(1<<40))
	require.Zero(t, h.SizeBytes())
	require.Empty(t, h.ring)
	require.Empty(t, h.times)
	require.Zero(t, h.Shrink(1))
}

// TestLoadBetweenWindows: of a series that is not retained, all samples in windows come, and those
// of chunks between windows do not.
func TestLoadBetweenWindows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	left := 0
	for range 200 {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m"))
		var times []int64
		for at := r.Int64N(1000) - 500; len(times) < 2000; {
			at += 1 + r.Int64N(30)
			times = append(times, at)
		}
		require.NoError(t, b.Floats(times, make([]float64, len(times))))
		sel, err := b.Finish()
		require.NoError(t, err)
		q := &Request{Set: NewSet(0), Sel: sel, Width: 1 + r.Int64N(3000), Every: 1 + r.Int64N(9000)}
		q.Mint = times[0] - 2000 + r.Int64N(8000)
		last := r.Int64N(8) // window
		q.Maxt = q.Mint + last*q.Every + q.Width - 1
		got, err := new(Reader).Load(q, 0)
		require.NoError(t, err)
		at := 0
		for _, c := range sel.Chunks(0) {
			needed := false
			for k := range last + 1 {
				from := q.Mint + k*q.Every
				needed = needed || c.MinT < from+q.Width && c.MaxT >= from
			}
			needed = needed || q.Every <= q.Width && c.MinT <= q.Maxt && c.MaxT >= q.Mint
			for _, ts := range times {
				if ts < c.MinT || ts > c.MaxT {
					continue
				}
				if !needed {
					left++
					continue
				}
				require.Less(t, at, got.Times.Len())
				require.Equal(t, ts, got.Times.Own[at])
				at++
			}
		}
		require.Equal(t, at, got.Times.Len())
	}
	require.Greater(t, left, 10_000)
}

// TestMagnitudes: what encloses the values that are read is of all that are retained, or, where others
// were decoded behind these, of what is read.
func TestMagnitudes(t *testing.T) {
	const n = 400
	ts, vs := make([]int64, n), make([]float64, n)
	for i := range vs {
		ts[i], vs[i] = int64(i), 0.5+float64(i)
	}
	vs[5], vs[n-1] = -1000.25, 0.125
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	require.NoError(t, b.Floats(ts, vs))
	sel, err := b.Finish()
	require.NoError(t, err)
	sel = sel.WithMemos(n - 50)
	var r Reader
	h := NewSet(1 << 20)
	for range 3 {
		in, err := r.Load(&Request{Set: h, Tick: h.Tick(), Sel: sel, Mint: 50, Maxt: math.MaxInt64, Width: math.MaxInt64 / 2}, 0)
		require.NoError(t, err)
		require.Equal(t, exact.MagnitudesOf(in.Values), in.Magnitudes())
	}
	for range 2 {
		in, err := r.Load(&Request{Set: h, Tick: h.Tick(), Sel: sel, Mint: 50, Maxt: n / 2, Width: math.MaxInt64 / 2}, 0)
		require.NoError(t, err)
		require.Positive(t, in.Times.Known)
		require.Empty(t, in.Times.Own)
		require.Equal(t, exact.MagnitudesOf([]float64{0.5, -1000.25}), in.Magnitudes())
	}
}
