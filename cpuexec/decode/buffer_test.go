package decode

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// TestReadNamesCorruptSeries: a chunk whose samples do not fit its stated range
// or that does not decode fails the read and names the series.
func TestReadNamesCorruptSeries(t *testing.T) {
	ts, vs := []int64{1000, 2000, 3000}, []float64{1, 2, 3}
	good := selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)
	for name, c := range map[string]struct {
		mint, maxt int64
		b          []byte
	}{
		"cut":        {1000, 3000, good[:len(good)-2]},
		"early":      {1500, 3000, good},
		"late":       {1000, 2500, good},
		"garbage":    {1000, 3000, []byte{0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
		"xor2 short": {1000, 3000, nil},
	} {
		t.Run(name, func(t *testing.T) {
			enc := chunkenc.EncXOR
			if c.b == nil {
				enc, c.b = chunkenc.EncXOR2, []byte{0, 5, 0, 1}
			}
			b := selection.NewBuilder(0)
			b.Series(labels.FromStrings("__name__", "m", "a", "b"))
			require.NoError(t, b.Chunk(enc, c.mint, c.maxt, c.b))
			s, err := b.Finish()
			require.NoError(t, err)
			var cols Buffer
			err = cols.Read(s, 0, s.Chunks(0), true, new(Stats))
			var corrupt *selection.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.ErrorContains(t, err, `{__name__="m", a="b"}`)
		})
	}
}

// hostile are XOR chunks of one series: of all kinds of samples, some of them cut, or with bits
// turned over, or said to have more or fewer samples than they have.
func hostile(t testing.TB, r *rand.Rand) *selection.Selection {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	for k := range 1 + r.Int64N(AtOnce) {
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(300))
		if r.IntN(2) == 0 { // as scraped: a counter, at times late
			total := 0.0
			for i := range ts {
				total += float64(r.IntN(40))
				ts[i], vs[i] = int64(i)*15_000+r.Int64N(1+r.Int64N(6)), total
			}
		}
		c := selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)
		switch r.IntN(4) {
		case 0:
			c = c[:2+r.IntN(len(c)-1)]
		case 1:
			for range 1 + r.IntN(3) {
				c[r.IntN(len(c))] ^= 1 << r.IntN(8)
			}
		case 2:
			c[1] ^= byte(1 + r.IntN(15))
		}
		_ = b.Chunk(chunkenc.EncXOR, 10*k, 10*k+1, c) // which refuses some; their times are not looked at here
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

// requireAtOnce checks that the chunks of the one series of s that are decoded at once come to
// what each comes to by itself, samples and errors, and that samples go nowhere else. It returns
// how many chunks are good, how many are not, and how many were decoded in lanes.
func requireAtOnce(t testing.TB, s *selection.Selection) (good, bad, inLanes int) {
	cs, n := s.Chunks(0), 0
	for _, c := range cs {
		n += int(c.Samples)
	}
	const behind = -12345
	ts, vs := make([]int64, n+1), make([]float64, n+1)
	ts[n], vs[n] = behind, behind
	c := Buffer{Times: ts[:n], Values: vs[:n]}
	at := 0
	for i, ch := range cs {
		c.placed, c.lanes = append(c.placed, placed{Chunk: ch, at: at}), append(c.lanes, i)
		at += int(ch.Samples)
	}
	done := c.decodeLanes(s)
	c.decodeAtOnce(s)
	got := c.placed
	at = 0
	for i, c := range cs {
		wantT, wantV := make([]int64, c.Samples), make([]float64, c.Samples)
		stale, err := decodeXOR(s.Bytes(c), wantT, wantV)
		end := at + int(c.Samples)
		require.Equal(t, err, got[i].err, "chunk %d", i)
		if err == nil {
			good++
			require.Equal(t, stale, got[i].stale, "chunk %d", i)
			require.Equal(t, wantT, ts[at:end], "chunk %d", i)
			for k, v := range wantV {
				require.Equal(t, math.Float64bits(v), math.Float64bits(vs[at+k]), "chunk %d, sample %d", i, k)
			}
		} else {
			bad++
		}
		at = end
	}
	require.Equal(t, int64(behind), ts[n])
	require.Equal(t, float64(behind), vs[n])
	return good, bad, bits.OnesCount16(done)
}

func TestDecodeAtOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	good, bad, inLanes := 0, 0, 0
	for range 1000 {
		if s := hostile(t, r); s.NumSeries() > 0 {
			g, b, l := requireAtOnce(t, s)
			good, bad, inLanes = good+g, bad+b, inLanes+l
		}
	}
	require.Greater(t, min(good, bad), 500)
	require.True(t, !hasEight || inLanes > 500, "%d chunks were decoded in lanes", inLanes)
}

// TestReadManyChunks: samples of many chunks, of which some have stale markers, come in order.
func TestReadManyChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 7))
	for range 50 {
		ts, vs := selectiontest.RandomSamples(r, 3000)
		for range r.IntN(100) {
			vs[r.IntN(len(vs))] = math.Float64frombits(value.StaleNaN)
		}
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m"))
		for at, n := 0, 0; at < len(ts); at += n {
			n = min(1+r.IntN(200), len(ts)-at)
			c := selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts[at:at+n], vs[at:at+n])
			require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[at], ts[at+n-1], c))
		}
		s, err := b.Finish()
		require.NoError(t, err)
		var all, some Buffer
		err = all.Read(s, 0, s.Chunks(0), false, new(Stats))
		require.NoError(t, err)
		require.Equal(t, slices.ContainsFunc(vs, value.IsStaleNaN), all.Stale)
		err = some.Read(s, 0, s.Chunks(0), true, new(Stats))
		require.NoError(t, err)
		require.False(t, some.Stale)
		require.Equal(t, ts, all.Times)
		k := 0
		for i, v := range vs {
			require.Equal(t, math.Float64bits(v), math.Float64bits(all.Values[i]))
			if !value.IsStaleNaN(v) {
				require.Equal(t, ts[i], some.Times[k])
				require.Equal(t, math.Float64bits(v), math.Float64bits(some.Values[k]))
				k++
			}
		}
		require.Len(t, some.Times, k)
	}
}

// TestAtOnce: chunks that are read at once have the samples, and the first error, that each has when
// it is read by itself.
func TestAtOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	failed := 0
	for range 500 {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m"))
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(5000))
		for range r.IntN(4) * r.IntN(10) {
			vs[r.IntN(len(vs))] = math.Float64frombits(value.StaleNaN)
		}
		for at, n := 0, 0; at < len(ts); at += n {
			n = min(1+r.IntN(200), len(ts)-at)
			encoding := []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR, chunkenc.EncXOR2}[r.IntN(3)]
			c := selectiontest.Chunk(t, encoding, nil, ts[at:at+n], vs[at:at+n])
			if r.IntN(400) == 0 {
				c = c[:max(3, len(c)-1)]
			}
			require.NoError(t, b.Chunk(encoding, ts[at], ts[at+n-1], c))
		}
		s, err := b.Finish()
		require.NoError(t, err)
		for _, dropStale := range []bool{true, false} {
			all := Buffer{Times: []int64{-7}, Values: []float64{-7}} // which stays
			one := Buffer{Times: []int64{-7}, Values: []float64{-7}}
			var stats Stats
			got := all.Read(s, 0, s.Chunks(0), dropStale, &stats)
			var want error
			var sum Stats
			for k := range s.Chunks(0) {
				if want = one.Read(s, 0, s.Chunks(0)[k:k+1], dropStale, &sum); want != nil {
					failed++
					break
				}
			}
			require.Equal(t, want, got)
			if want != nil {
				continue
			}
			require.Equal(t, sum, stats)
			require.Equal(t, one.Stale, all.Stale)
			require.Equal(t, one.Times, all.Times)
			require.Len(t, all.Values, len(one.Values))
			for i, v := range one.Values {
				require.Equal(t, math.Float64bits(v), math.Float64bits(all.Values[i]))
			}
		}
	}
	require.Positive(t, failed)
}

// FuzzDecodeAtOnce decodes some bytes and a good chunk at once.
func FuzzDecodeAtOnce(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	var good []byte
	for range 20 {
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(50))
		good = selectiontest.Chunk(f, chunkenc.EncXOR, nil, ts, vs)
		f.Add(good)
	}
	f.Fuzz(func(t *testing.T, c []byte) {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m"))
		require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 1, good))
		_ = b.Chunk(chunkenc.EncXOR, 10, 11, c)
		s, err := b.Finish()
		require.NoError(t, err)
		requireAtOnce(t, s)
	})
}

// BenchmarkSeries decodes series of some chunks each: of 1 chunk one by one, of more at once.
func BenchmarkSeries(b *testing.B) {
	for _, p := range patterns() {
		chunks := p.chunks(b, chunkenc.EncXOR)
		for _, each := range []int{1, 2, 3, 4, 8, 12, 16} {
			build := selection.NewBuilder(0)
			for k, c := range chunks[:480] {
				if k%each == 0 {
					build.Series(labels.FromStrings("__name__", "m", "n", fmt.Sprintf("%03d", k)))
				}
				require.NoError(b, build.Chunk(chunkenc.EncXOR, int64(k)*120*15_000, int64(k+1)*120*15_000-1, c))
			}
			s, err := build.Finish()
			require.NoError(b, err)
			b.Run(fmt.Sprintf("%s/%d", p.name, each), func(b *testing.B) {
				var buf Buffer
				for b.Loop() {
					for i := range s.NumSeries() {
						buf.Reset()
						err := buf.Read(s, i, s.Chunks(i), true, new(Stats))
						require.NoError(b, err)
					}
				}
				b.ReportMetric(float64(s.NumSamples())*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msamples/s")
			})
		}
	}
}

// all are the start timestamps of the first n samples.
func (s Starts) all(n int) (out []int64) {
	at := s.Cursor()
	for i := range n {
		out = append(out, at.At(int32(i)))
	}
	return out
}

// TestStartRuns: runs that are made sample by sample, cut, joined and rid of stale
// markers are those of the list that this leaves, and neighbours differ.
func TestStartRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	random := func(n int) (starts []int64, vs []float64, runs Starts) {
		kind := r.IntN(4)
		for i := range n {
			start := int64(0)
			switch {
			case kind == 1:
				start = 7
			case kind == 2:
				start = int64(r.IntN(3))
			case kind == 3 && i > n/2:
				start = 5
			}
			v := float64(i)
			if r.IntN(4) == 0 {
				v = math.Float64frombits(value.StaleNaN)
			}
			starts, vs = append(starts, start), append(vs, v)
			runs.Add(i, start)
		}
		return starts, vs, runs
	}
	requireRuns := func(want []int64, runs Starts) {
		require.True(t, slices.Equal(want, runs.all(len(want))), "%v: %v", want, runs)
		for i := range runs {
			require.True(t, i == 0 && runs[i].start != 0 || i > 0 && runs[i].start != runs[i-1].start && runs[i].from > runs[i-1].from, "%v", runs)
		}
	}
	for range 2000 {
		starts, vs, runs := random(r.IntN(20))
		requireRuns(starts, runs)
		lo := r.IntN(len(starts) + 1)
		hi := lo + r.IntN(len(starts)-lo+1)
		requireRuns(slices.Clone(starts[lo:hi]), runs.Cut(lo, hi, nil))
		more, _, tail := random(r.IntN(20))
		joined := slices.Clone(runs)
		joined.Join(len(starts), tail)
		requireRuns(slices.Concat(starts, more), joined)
		first := r.IntN(len(starts) + 1)
		left := slices.Clone(starts[:first])
		for i := first; i < len(starts); i++ {
			if !value.IsStaleNaN(vs[i]) {
				left = append(left, starts[i])
			}
		}
		runs.DropStale(first, vs[first:])
		require.True(t, slices.Equal(left, runs.all(len(left))), "%v: %v", left, runs)
	}
}
