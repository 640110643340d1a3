package cache

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// BenchmarkCovered looks up 100k series, all of whose tiles are kept.
func BenchmarkCovered(b *testing.B) {
	c := New(newMinutely(b, 100_000), Options{HostBytes: 1 << 40, Tile: testTile, Now: at(now)})
	ms := named("m")
	_, _, err := c.get(b.Context(), 98*hour, horizon-1, ms)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		sel, _, err := c.get(b.Context(), 98*hour, horizon-1, ms)
		if err != nil || sel.NumSeries() != 100_000 {
			b.Fatal(err, sel.NumSeries())
		}
	}
}

// dense makes n series with a chunk every 1800 s, each of 120 samples 15 s
// apart: as of Prometheus's head.
func dense(b *testing.B, n int, mint, maxt int64) *selection.Selection {
	sb := selection.NewBuilder(0)
	chunk := func(from, to int64) []byte {
		c := chunkenc.NewXORChunk()
		app, err := c.Appender()
		require.NoError(b, err)
		for ts := from; ts < to; ts += 15_000 {
			app.Append(0, ts, float64(ts/15_000%1000))
		}
		return c.Bytes()
	}
	const long = 1_800_000
	encoded := map[int64][]byte{}
	for i := range n {
		sb.Series(labels.FromStrings("__name__", "http_requests_total", "instance", string(rune('a'+i%26))+"-host.example:9090", "code", "200", "i", string(rune(0x4e00+i))))
		for from := mint; from < maxt; from += long {
			to := min(from+long, maxt)
			if encoded[from] == nil {
				encoded[from] = chunk(from, to)
			}
			require.NoError(b, sb.Chunk(chunkenc.EncXOR, from, to-15_000, encoded[from]))
		}
	}
	s, err := sb.Finish()
	require.NoError(b, err)
	return s
}

// BenchmarkTailJoin joins a tail of 90 minutes to 24 h of 3000 series.
func BenchmarkTailJoin(b *testing.B) {
	old, tail := dense(b, 3000, 0, 24*hour), dense(b, 3000, 24*hour, 25*hour+hour/2)
	b.Logf("%d and %d chunks", old.NumChunks(), tail.NumChunks())
	run := func(name string, parts ...part) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := join(append([]part(nil), parts...)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("disjoint", part{0, old}, part{24 * hour, tail})
	over := dense(b, 3000, 24*hour-1_800_000, 25*hour+hour/2)
	run("same-chunk-twice", part{0, old}, part{24 * hour, over})
	cut, err := old.CutAfter(24*hour - 600_000)
	require.NoError(b, err)
	run("grown-chunk", part{0, cut}, part{24 * hour, over})
	b.Run("slice-1h", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := join([]part{{0, old.Slice(23*hour, 25*hour)}, {24 * hour, tail}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cut", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := old.CutAfter(24*hour - 600_000); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSubsumed takes 10k of 100k series from a wider selector, for the
// first time.
func BenchmarkSubsumed(b *testing.B) {
	up := newMinutely(b, 100_000)
	c := New(up, Options{HostBytes: 1 << 40, Tile: testTile, Now: at(now)})
	_, _, err := c.get(b.Context(), 98*hour, horizon-1, named("m"))
	require.NoError(b, err)
	up.asked()
	narrow := matchersIn(b, `m{i=~"00.*"}`)
	for b.Loop() {
		sel, _, err := c.get(b.Context(), 98*hour, horizon-1, narrow)
		if err != nil || sel.NumSeries() != 10_000 || len(up.asked()) > 0 {
			b.Fatal(err, sel.NumSeries())
		}
		c.mu.Lock()
		c.remove(c.entries[selectorKey(narrow)])
		c.mu.Unlock()
	}
}
