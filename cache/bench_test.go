package cache

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
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
	run := func(name string, parts ...tile.Input) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tile.Join(b.Context(), append([]tile.Input(nil), parts...)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("disjoint", tile.Input{From: 0, Sel: old}, tile.Input{From: 24 * hour, Sel: tail})
	over := dense(b, 3000, 24*hour-1_800_000, 25*hour+hour/2)
	run("same-chunk-twice", tile.Input{From: 0, Sel: old}, tile.Input{From: 24 * hour, Sel: over})
	cut, err := old.Cut(context.Background(), math.MinInt64, 24*hour-600_000)
	require.NoError(b, err)
	run("grown-chunk", tile.Input{From: 0, Sel: cut}, tile.Input{From: 24 * hour, Sel: over})
	b.Run("slice-1h", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tile.Join(b.Context(), []tile.Input{{From: 0, Sel: old.Slice(23*hour, 25*hour)}, {From: 24 * hour, Sel: tail}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cut", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := old.Cut(context.Background(), math.MinInt64, 24*hour-600_000); err != nil {
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
	// Something kept lacks the label, so it is not external.
	c.mu.Lock()
	c.use("other", nil).sel = minutely(b, 1, 98*hour, 99*hour).Filter(func(labels.Labels) bool { return true })
	c.entries["other"].sel.Series()[0] = labels.FromStrings("__name__", "other")
	c.mu.Unlock()
	narrow := matchersIn(b, `m{i=~"00.*"}`)
	for b.Loop() {
		sel, _, err := c.get(b.Context(), 98*hour, horizon-1, narrow)
		if err != nil || sel.NumSeries() != 10_000 || len(up.asked()) > 0 {
			b.Fatal(err, sel.NumSeries())
		}
		c.mu.Lock()
		c.remove(c.entries[matching.Key(narrow)])
		c.mu.Unlock()
	}
}

// counters makes n series of so many chunks of 120 samples 15 s apart, as a scrape
// of counters leaves them: times less than late ms late, values that grow by
// random steps.
func counters(b *testing.B, n, chunks int, from, late int64) *selection.Selection {
	r := rand.New(rand.NewPCG(1, 2))
	// Different bytes for all would take long to make and compress no differently.
	encoded := make([][]byte, 64*chunks)
	bounds := make([][2]int64, len(encoded))
	for k := range encoded {
		c := chunkenc.NewXORChunk()
		app, err := c.Appender()
		require.NoError(b, err)
		start := from + int64(k%chunks)*1_800_000
		value := float64(r.IntN(1e6))
		var ts int64
		for i := range int64(120) {
			ts = start + i*15_000 + r.Int64N(late)
			value += float64(r.IntN(50))
			app.Append(0, ts, value)
			if i == 0 {
				bounds[k][0] = ts
			}
		}
		bounds[k][1] = ts
		encoded[k] = c.Bytes()
	}
	sb := selection.NewBuilder(0)
	for i := range n {
		sb.Series(labels.FromStrings("__name__", "http_requests_total", "code", "200", "handler", "/api/v1/query_range",
			"instance", fmt.Sprintf("host-%06d.example.org:9090", i), "job", "api"))
		for k := range chunks {
			at := i%64*chunks + k
			require.NoError(b, sb.Chunk(chunkenc.EncXOR, bounds[at][0], bounds[at][1], encoded[at]))
		}
	}
	s, err := sb.Finish()
	require.NoError(b, err)
	return s
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkMemory says what a million series over some hours take, beside their
// chunks, and beside chunks and labels.
func BenchmarkMemory(b *testing.B) {
	const chunks = 8
	for _, late := range []int64{1, 4} {
		b.Run(fmt.Sprintf("up to %d ms late", late-1), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				from := tile.Floor(now, hour) - int64(chunks)*1_800_000 - hour
				c := New(forgetful(func(context.Context, int64, int64) (*selection.Selection, annotations.Annotations, error) {
					return counters(b, 1_000_000, chunks, from, late), nil, nil
				}), Options{HostBytes: 1 << 40, Tile: 30 * time.Minute, Now: at(now)})
				sel, _, err := c.get(b.Context(), from, from+int64(chunks)*1_800_000-1, named("m"))
				require.NoError(b, err)
				payload, data := sel.PayloadBytes(), int64(0)
				for i := range sel.NumSeries() {
					for _, k := range sel.Chunks(i) {
						data += int64(k.Len)
					}
				}
				perChunk := float64(data) / float64(sel.NumChunks())
				sel = nil // what a query holds is its own
				took := heap() - before
				b.ReportMetric(float64(took)/float64(data), "heap/chunks")
				b.ReportMetric(float64(took)/float64(payload), "heap/payload")
				b.ReportMetric(float64(c.Stats().Bytes)/float64(took), "accounted/heap")
				b.ReportMetric(perChunk, "B/chunk")
				runtime.KeepAlive(c)
			}
		})
	}
}

// BenchmarkRestart answers the first query after a restart, of a gigabyte on disk.
func BenchmarkRestart(b *testing.B) {
	const series, chunks = 23_000, 96
	from := tile.Floor(now, hour) - chunks*1_800_000 - hour
	path := b.TempDir()
	asked := 0
	up := forgetful(func(context.Context, int64, int64) (*selection.Selection, annotations.Annotations, error) {
		asked++
		return counters(b, series, chunks, from, 4), nil, nil
	})
	open := func() *Cache {
		store, err := disk.Open(disk.Options{Path: path, Limit: 1 << 40})
		require.NoError(b, err)
		return New(up, Options{HostBytes: 1 << 40, Tile: 30 * time.Minute, Now: at(now), Disk: store})
	}
	get := func(c *Cache) *selection.Selection {
		sel, _, err := c.get(b.Context(), from, from+chunks*1_800_000-1, named("m"))
		require.NoError(b, err)
		require.Equal(b, series, sel.NumSeries())
		return sel
	}
	c := open()
	get(c)
	require.NoError(b, c.Close())
	c = nil
	for b.Loop() {
		again := open()
		sel := get(again)
		b.StopTimer()
		b.ReportMetric(float64(again.disk.Stats().Bytes), "bytes")
		require.Equal(b, 1, asked)
		require.EqualValues(b, series*chunks, sel.NumChunks())
		require.NoError(b, again.Close())
		b.StartTimer()
	}
}
