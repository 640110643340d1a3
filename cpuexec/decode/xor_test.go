package decode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection/selectiontest"
	"github.com/promwarp/promwarp/selection/slab"
)

func TestDecodeXORAgainstIterator(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(200))
		b := selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)
		gt, gv := make([]int64, len(ts)), make([]float64, len(ts))
		stale, err := decodeXOR(b, gt, gv)
		require.NoError(t, err)
		require.Equal(t, ts, gt)
		anyStale := false
		for i := range vs {
			require.Equal(t, math.Float64bits(vs[i]), math.Float64bits(gv[i]))
			anyStale = anyStale || value.IsStaleNaN(vs[i])
		}
		require.Equal(t, anyStale, stale)
	}
}

// TestDecodeXORCorrupt flips and cuts every byte of chunks: the decoder must
// return an error or samples, and what it accepts the iterator must agree with.
func TestDecodeXORCorrupt(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		ts, vs := selectiontest.RandomSamples(r, 2+r.IntN(60))
		good := selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)
		for at := range good {
			for _, flip := range []byte{0xff, 1, 0x80, byte(1 + r.IntN(254))} {
				b := selectiontest.Padded(good)
				b[at] ^= flip
				checkAgainstIterator(t, b)
			}
			checkAgainstIterator(t, selectiontest.Padded(good[:at]))
		}
	}
}

func checkAgainstIterator(t testing.TB, b []byte) {
	if len(b) < 2 {
		return // the selection's builder refuses these
	}
	n := int(binary.BigEndian.Uint16(b))
	ts, vs := make([]int64, n), make([]float64, n)
	if _, err := decodeXOR(b, ts, vs); err != nil {
		return
	}
	c, err := chunkenc.FromData(chunkenc.EncXOR, b[:len(b):len(b)])
	require.NoError(t, err)
	it := c.Iterator(nil)
	for i := range ts {
		require.Equal(t, chunkenc.ValFloat, it.Next(), "%x sample %d: %v", b, i, it.Err())
		at, v := it.At()
		require.Equal(t, at, ts[i], "%x sample %d", b, i)
		require.Equal(t, math.Float64bits(v), math.Float64bits(vs[i]), "%x sample %d", b, i)
	}
}

func FuzzDecodeXOR(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(50))
		f.Add(selectiontest.Chunk(f, chunkenc.EncXOR, nil, ts, vs))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkAgainstIterator(t, selectiontest.Padded(b)) })
}

// randomStarts makes start timestamps of one of several kinds for samples at ts;
// nil for none.
func randomStarts(r *rand.Rand, ts []int64) []int64 {
	kind, from := r.IntN(6), r.IntN(len(ts)+1)
	if kind == 0 {
		return nil
	}
	sts := make([]int64, len(ts))
	for i, t := range ts {
		switch {
		case kind == 1: // one for all
			sts[i] = ts[0] - 5000
		case kind == 2 && i < from: // none at first
		case kind == 3 && i > 0 && r.IntN(10) > 0: // changing at times
			sts[i] = sts[i-1]
		case kind == 4 && i > 0: // the end of the sample before, as with deltas
			sts[i] = ts[i-1]
		default:
			sts[i] = t - r.Int64N(1<<uint(1+r.IntN(60)))
		}
	}
	return sts
}

func TestDecodeXOR2AgainstIterator(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(300))
		requireDecodes(t, selectiontest.Chunk(t, chunkenc.EncXOR2, randomStarts(r, ts), ts, vs), ts, vs)
	}
}

func requireDecodes(t testing.TB, b []byte, ts []int64, vs []float64) {
	gt, gv := make([]int64, len(ts)), make([]float64, len(ts))
	stale, err := decodeXOR2(b, gt, gv, nil, 0)
	require.NoError(t, err)
	require.Equal(t, ts, gt)
	for i := range vs {
		require.Equal(t, math.Float64bits(vs[i]), math.Float64bits(gv[i]), "sample %d", i)
	}
	require.Equal(t, slices.ContainsFunc(vs, value.IsStaleNaN), stale)
	require.NoError(t, checkXOR2(b))
}

// someXOR2 are chunks that together have every code of the format.
func someXOR2(t testing.TB) map[string][]byte {
	stale := math.Float64frombits(value.StaleNaN)
	regular := func(n int) (ts []int64) {
		for i := range n {
			ts = append(ts, 1_700_000_000_000+int64(i)*15_000)
		}
		return ts
	}
	uneven := []int64{-5, 10, 30, 31, 4_000, 4_001, 600_000, 600_001, 1 << 40, 1<<40 + 1, 1<<40 + 2, 1<<40 + 4098, 1<<40 + 4099}
	odd := []float64{stale, 1, 1, stale, stale, 1, math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), stale, math.MaxFloat64}
	counter := []float64{0, 3, 3, 17, 18, 19, 40, 1000, 1001, 2000, 2000, 0, 5}
	same := slices.Repeat([]float64{42}, 130)
	starts := slices.Repeat([]int64{1_699_999_000_000}, 130)
	changing := slices.Clone(starts)
	for i := 100; i < len(changing); i++ {
		changing[i] += int64(i) << (i % 37)
	}
	return map[string][]byte{
		"one sample":     selectiontest.Chunk(t, chunkenc.EncXOR2, nil, []int64{-1}, []float64{math.Inf(-1)}),
		"one stale":      selectiontest.Chunk(t, chunkenc.EncXOR2, []int64{7}, []int64{9}, []float64{stale}),
		"regular":        selectiontest.Chunk(t, chunkenc.EncXOR2, nil, regular(13), counter),
		"regular odd":    selectiontest.Chunk(t, chunkenc.EncXOR2, nil, regular(13), odd),
		"uneven":         selectiontest.Chunk(t, chunkenc.EncXOR2, nil, uneven, counter),
		"uneven odd":     selectiontest.Chunk(t, chunkenc.EncXOR2, nil, uneven, odd),
		"constant":       selectiontest.Chunk(t, chunkenc.EncXOR2, nil, regular(130), same),
		"one start":      selectiontest.Chunk(t, chunkenc.EncXOR2, starts[:13], regular(13), counter),
		"one long start": selectiontest.Chunk(t, chunkenc.EncXOR2, starts, regular(130), same),
		"starts change":  selectiontest.Chunk(t, chunkenc.EncXOR2, changing, regular(130), same),
		"deltas":         selectiontest.Chunk(t, chunkenc.EncXOR2, uneven, uneven, odd),
	}
}

// TestDecodeXOR2Corrupt cuts chunks at every byte and flips every bit: the
// decoder must return what the iterator does, or an error with good reason.
func TestDecodeXOR2Corrupt(t *testing.T) {
	for name, good := range someXOR2(t) {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, checkXOR2(good))
			n := int(binary.BigEndian.Uint16(good))
			ts, vs := make([]int64, n), make([]float64, n)
			for at := range good {
				_, err := decodeXOR2(selectiontest.Padded(good[:at]), ts, vs, nil, 0)
				require.Error(t, err, "cut to %d bytes", at)
				for bit := range 8 {
					b := selectiontest.Padded(good)
					b[at] ^= 1 << bit
					require.NoError(t, checkXOR2(b), "bit %d of byte %d", bit, at)
				}
			}
		})
	}
}

func FuzzXOR2(f *testing.F) {
	for _, b := range someXOR2(f) {
		f.Add(b)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 40 {
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(200))
		f.Add(selectiontest.Chunk(f, chunkenc.EncXOR2, randomStarts(r, ts), ts, vs))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := checkXOR2(selectiontest.Padded(b)); err != nil {
			t.Fatal(err)
		}
	})
}

// checkXOR2 decodes b, which may be corrupt, and returns an error if the result
// is not what Prometheus's iterator justifies.
func checkXOR2(b []byte) error {
	n := 3
	if len(b) >= 2 {
		n = int(binary.BigEndian.Uint16(b))
	}
	ts, vs := make([]int64, n), make([]float64, n)
	var runs Starts
	stale, err := decodeXOR2(b, ts, vs, &runs, 0)

	// What lies behind the chunk must not matter.
	behind := slices.Concat(b, slices.Repeat([]byte{0xff}, slab.Pad))
	ts2, vs2 := make([]int64, n), make([]float64, n)
	_, err2 := decodeXOR2(behind[:len(b):len(behind)], ts2, vs2, nil, 0)
	if (err == nil) != (err2 == nil) {
		return errors.New("the padding decides whether it decodes")
	}
	if len(b) < 3 {
		if n > 0 && err == nil {
			return errors.New("decoded without a header")
		}
		return nil
	}
	wt, wv, ws := iterateXOR2(b, n)
	if err == nil {
		if !slices.Equal(ts, ts2) || !sameBits(vs, vs2) {
			return errors.New("the padding changes the samples")
		}
		if !slices.Equal(ts, wt) || !sameBits(vs, wv) {
			return errors.New("differs from Prometheus's iterator")
		}
		if !slices.Equal(runs.all(n), ws) {
			return errors.New("other start timestamps than Prometheus's iterator")
		}
		if stale != slices.ContainsFunc(vs, value.IsStaleNaN) {
			return errors.New("wrong about stale markers")
		}
		if !increases(ts) {
			return errors.New("times do not increase")
		}
		return nil
	}
	if len(wt) < n {
		return nil // the iterator fails, too
	}
	// A stream ends too early if the samples depend on what is behind it; the
	// iterator itself sometimes overlooks that.
	zt, zv, zs := iterateXOR2(slices.Concat(b, make([]byte, 64)), n)
	dependent := false
	// Zeros repeat a value, ones are stale markers, and what is neither changes it.
	for _, behind := range []byte{0xff, 0xa5} {
		ot, ov, os := iterateXOR2(slices.Concat(b, slices.Repeat([]byte{behind}, 64)), n)
		dependent = dependent || !slices.Equal(zt, ot) || !sameBits(zv, ov) || !slices.Equal(zs, os)
	}
	switch {
	case dependent, errors.Is(err, errBadNumber): // the iterator drops the surplus
		return nil
	case !increases(zt):
		return nil
	case errors.Is(err, errTruncated) && n > 0 && endsInIgnoredBits(b, n):
		return nil
	default:
		return errors.Join(errors.New("refused without reason"), err)
	}
}

// endsInIgnoredBits reports whether the stream ends within the last of n
// samples. Where that has an impossible range of bits, its value does not depend
// on them.
func endsInIgnoredBits(b []byte, n int) bool {
	ts, vs := make([]int64, n), make([]float64, n)
	_, before := decodeXOR2(b, ts[:n-1], vs, nil, 0)
	_, longer := decodeXOR2(selectiontest.Padded(slices.Concat(b, make([]byte, 64))), ts, vs, nil, 0)
	return before == nil && longer == nil
}

// iterateXOR2 returns up to n samples, and their start timestamps, as
// Prometheus's iterator decodes them.
func iterateXOR2(b []byte, n int) (ts []int64, vs []float64, sts []int64) {
	c, err := chunkenc.FromData(chunkenc.EncXOR2, b)
	if err != nil {
		return nil, nil, nil
	}
	for it := c.Iterator(nil); len(ts) < n && it.Next() == chunkenc.ValFloat; {
		t, v := it.At()
		ts, vs, sts = append(ts, t), append(vs, v), append(sts, it.AtST())
	}
	return ts, vs, sts
}

func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// increases reports whether each time is after the one before, by a distance
// that fits into an int64.
func increases(ts []int64) bool {
	for i := 1; i < len(ts); i++ {
		if ts[i] <= ts[i-1] || ts[i]-ts[i-1] < 0 {
			return false
		}
	}
	return true
}

// TestDecodeXOR2Longest: a chunk holds up to 65535 samples, and of their start
// timestamps it can say only for the first 127 where they begin to change.
func TestDecodeXOR2Longest(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	ts, vs, sts := make([]int64, math.MaxUint16), make([]float64, math.MaxUint16), make([]int64, math.MaxUint16)
	for i := range ts {
		ts[i], vs[i] = int64(i)*1000+r.Int64N(2), float64(r.IntN(3))
		if i > 40_000 {
			sts[i] = ts[i] - 10
		}
	}
	requireDecodes(t, selectiontest.Chunk(t, chunkenc.EncXOR2, nil, ts, vs), ts, vs)
	requireDecodes(t, selectiontest.Chunk(t, chunkenc.EncXOR2, sts, ts, vs), ts, vs)
}

// TestDecodeTimesWrap: times that leave the range of int64 do not increase, even
// where the last is later than the first.
func TestDecodeTimesWrap(t *testing.T) {
	vs := make([]float64, 6)
	ts := []int64{-1 << 62, 1 << 61, 1<<63 - 5, -1 << 61, 1 << 60, 1 << 62} // each step is above 0 in 64 bits
	for i := 1; i < len(ts); i++ {
		require.Positive(t, ts[i]-ts[i-1])
	}
	for _, e := range []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2} {
		_, err := decode(e, selectiontest.Chunk(t, e, nil, ts, vs), make([]int64, 6), make([]float64, 6))
		require.ErrorIs(t, err, errBackwards, e)
		for _, good := range [][]int64{ts[:3], {math.MinInt64 + 1, -1, 0, math.MaxInt64 - 1, math.MaxInt64}} {
			got := make([]int64, len(good))
			_, err := decode(e, selectiontest.Chunk(t, e, nil, good, vs[:len(good)]), got, make([]float64, len(good)))
			require.NoError(t, err, e)
			require.Equal(t, good, got)
		}
	}
}

// decode decodes the first len(ts) samples of a chunk of floats.
func decode(e chunkenc.Encoding, b []byte, ts []int64, vs []float64) (stale bool, err error) {
	if e == chunkenc.EncXOR {
		return decodeXOR(b, ts, vs)
	}
	return decodeXOR2(b, ts, vs, nil, 0)
}

// patterns are what the decoders' speed is measured on.
func patterns() []pattern {
	r := rand.New(rand.NewPCG(9, 9))
	total := 0.0
	counter := func() float64 { total += float64(r.IntN(40)); return total }
	return []pattern{
		{"counter", 1, counter},
		{"gauge", 1, func() float64 { return math.Round(1e9 + 1e7*r.NormFloat64()) }},
		{"constant", 1, func() float64 { return 17 }},
		{"random", 1, r.Float64},
		{"late", 4, counter},
	}
}

type pattern struct {
	name  string
	late  int64 // samples are less than this many ms late
	value func() float64
}

// chunks are 500 chunks of 120 samples, 15 s apart.
func (s pattern) chunks(b *testing.B, e chunkenc.Encoding) (out [][]byte) {
	r := rand.New(rand.NewPCG(8, 8))
	ts, vs := make([]int64, 120), make([]float64, 120)
	for c := range 500 {
		for i := range ts {
			ts[i], vs[i] = int64(c*len(ts)+i)*15_000+r.Int64N(s.late), s.value()
		}
		out = append(out, selectiontest.Chunk(b, e, nil, ts, vs))
	}
	return out
}

func BenchmarkDecode(b *testing.B) {
	for _, e := range []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2} {
		for _, s := range patterns() {
			chunks := s.chunks(b, e)
			ts, vs := make([]int64, 120), make([]float64, 120)
			run := func(by string, decode func(c []byte)) {
				b.Run(fmt.Sprintf("%s/%s/%s", e, s.name, by), func(b *testing.B) {
					for b.Loop() {
						for _, c := range chunks {
							decode(c)
						}
					}
					b.ReportMetric(float64(b.N*len(ts)*len(chunks))/b.Elapsed().Seconds()/1e6, "Msamples/s")
				})
			}
			run("promwarp", func(c []byte) {
				if _, err := decode(e, c, ts, vs); err != nil {
					b.Fatal(err)
				}
			})
			var it chunkenc.Iterator
			run("prometheus", func(c []byte) {
				x, err := chunkenc.FromData(e, c)
				if err != nil {
					b.Fatal(err)
				}
				it = x.Iterator(it)
				for i := 0; it.Next() != chunkenc.ValNone; i++ {
					ts[i], vs[i] = it.At()
				}
			})
		}
	}
}
