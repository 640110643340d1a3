package cache

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/testlog"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// revisionsAt lists the revisions of the tiles at the given hours, as an answer for
// mint to maxt (ms, both included) has them; 0 stands for none.
func revisionsAt(t testing.TB, c *Cache, mint, maxt int64, ms []*labels.Matcher, hours ...int64) []uint64 {
	t.Helper()
	sel, _, err := c.get(t.Context(), mint, maxt, ms)
	require.NoError(t, err)
	out := make([]uint64, len(hours))
	p := sel.Provenance
	if p == nil {
		return out
	}
	require.Equal(t, matching.Key(ms), p.Selector)
	end := int64(tile.MinTime)
	for _, s := range p.Settled {
		require.LessOrEqual(t, end, s.From, "in order, and none overlaps")
		require.Less(t, s.From, s.To)
		require.NotZero(t, s.Revision)
		end = s.To
		for i, h := range hours {
			if s.From <= h*hour && h*hour+testTile.Milliseconds() <= s.To {
				out[i] = s.Revision
			}
		}
	}
	return out
}

// Whatever is not kept of a tile from one query to the next gives it another
// revision, and nothing else does.
func TestRevisions(t *testing.T) {
	m := named("m")
	const from, to = 80 * hour, 90*hour - 1
	for name, test := range map[string]struct {
		options Options
		change  func(t *testing.T, c *Cache, clock *int64)
		want    string // of the tiles at 80, 84 and 88 h: same or new
	}{
		"nothing":   {change: func(*testing.T, *Cache, *int64) {}, want: "same same same"},
		"time":      {change: func(_ *testing.T, _ *Cache, clock *int64) { *clock += 50 * hour }, want: "same same same"},
		"neighbour": {change: func(t *testing.T, c *Cache, _ *int64) { query(t, c, 70*hour, 94*hour, "m") }, want: "same same same"},
		"tail":      {change: func(t *testing.T, c *Cache, _ *int64) { query(t, c, 84*hour, now, "m") }, want: "same same same"},
		"other":     {change: func(t *testing.T, c *Cache, _ *int64) { query(t, c, from, to, "other") }, want: "same same same"},
		"clear":     {change: func(_ *testing.T, c *Cache, _ *int64) { c.Clear() }, want: "new new new"},
		"discard":   {change: func(_ *testing.T, c *Cache, _ *int64) { c.discard(c.entries[matching.Key(m)]) }, want: "new new new"},
		"drop": {change: func(t *testing.T, c *Cache, _ *int64) {
			_, err := c.Drop(85*hour, 85*hour)
			require.NoError(t, err)
		}, want: "same new same"},
		"evict one": {change: func(_ *testing.T, c *Cache, _ *int64) {
			require.Positive(t, c.evict(c.entries[matching.Key(m)], tile.Coverage(nil).With(tile.Span{From: 80 * hour, To: 82 * hour}, 0)))
		}, want: "new same same"},
		"evict all": {change: func(_ *testing.T, c *Cache, _ *int64) {
			require.Positive(t, c.evict(c.entries[matching.Key(m)], tile.Coverage(nil).With(tile.Span{From: 80 * hour, To: 90 * hour}, 0)))
		}, want: "new new new"},
		"age": {options: Options{MaxAge: 6 * time.Hour}, change: func(_ *testing.T, _ *Cache, clock *int64) { *clock += 7 * hour }, want: "new new new"},
		"age of some": {options: Options{MaxAge: 6 * time.Hour}, change: func(t *testing.T, c *Cache, clock *int64) {
			*clock += 4 * hour
			_, err := c.Drop(88*hour, 88*hour)
			require.NoError(t, err)
			query(t, c, 88*hour, to, "m")
			revisionsAt(t, c, from, to, m, 80)
			*clock += 3 * hour
		}, want: "new new later"},
	} {
		t.Run(name, func(t *testing.T) {
			c, clock := clocked(t, newMinutely(t, 2), test.options)
			first := revisionsAt(t, c, from, to, m, 80, 84, 88)
			require.NotContains(t, first, uint64(0))
			require.Equal(t, first, revisionsAt(t, c, from, to, m, 80, 84, 88), "from what is kept")
			test.change(t, c, clock)
			last := revisions.Load()
			for range 2 {
				got := ""
				for i, rev := range revisionsAt(t, c, from, to, m, 80, 84, 88) {
					switch {
					case rev == first[i]:
						got += " same"
					case rev > last:
						got += " new"
					case rev > first[i]:
						got += " later"
					}
				}
				require.Equal(t, " "+test.want, got)
			}
		})
	}
}

// What is younger than the horizon is never settled, nor what a chunk of it that
// reaches back may have changed, nor what comes with warnings.
func TestNotSettled(t *testing.T) {
	c, clock := clocked(t, newMinutely(t, 1), Options{})
	require.Equal(t, []bool{true, true, false}, settled(revisionsAt(t, c, 90*hour, now, named("m"), 96, 98, 100)), "in one fetch")
	require.Equal(t, []bool{true, true, false}, settled(revisionsAt(t, c, 90*hour, now, named("m"), 96, 98, 100)), "joined")
	*clock += 2 * hour
	require.Equal(t, []bool{true, true, true}, settled(revisionsAt(t, c, 90*hour, *clock, named("m"), 96, 98, 100)), "its fetch beside what is kept")
	require.Equal(t, []bool{true, true, true}, settled(revisionsAt(t, c, 90*hour, *clock, named("m"), 96, 98, 100)))
	require.Equal(t, []bool{true, true, false}, settled(revisionsAt(t, c, 90*hour, *clock, named("m"), 96, 98, 102)))

	whole := having(func(mint, maxt int64) *selection.Selection { return minutely(t, 1, mint-3*hour, maxt) }) // as if chunks were that long
	c, _ = clocked(t, whole, Options{})
	for range 2 {
		query(t, c, 90*hour, now, "m")
	}
	require.Equal(t, []bool{true, false, false}, settled(revisionsAt(t, c, 90*hour, now, named("m"), 94, 98, 100)), "the tail reaches back")
	require.Equal(t, []bool{true, true, false}, settled(revisionsAt(t, c, 90*hour, horizon-1, named("m"), 94, 98, 100)), "without the tail")

	warning := &fake{fetch: func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		return minutely(t, 1, mint, maxt), annotations.New().Add(fmt.Errorf("not all is here")), nil
	}}
	c, _ = clocked(t, warning, Options{})
	require.Equal(t, []bool{false, false}, settled(revisionsAt(t, c, 90*hour, now, named("m"), 94, 98)))
}

func settled(revisions []uint64) (out []bool) {
	for _, rev := range revisions {
		out = append(out, rev != 0)
	}
	return out
}

// What was dropped while it was fetched has a revision that is never seen again.
func TestRevisionDroppedDuringAFetch(t *testing.T) {
	g := newGate(newMinutely(t, 1))
	c, _ := clocked(t, g.fake, Options{})
	got := make(chan uint64, 1)
	go func() { got <- revisionsAt(t, c, 80*hour, 90*hour-1, named("m"), 84)[0] }()
	<-g.entered
	_, err := c.Drop(85*hour, 86*hour)
	require.NoError(t, err)
	close(g.open)
	before := <-got
	require.NotZero(t, before)
	after := revisionsAt(t, c, 80*hour, 90*hour-1, named("m"), 84)[0]
	require.NotZero(t, after)
	require.NotEqual(t, before, after)
}

// What comes from disk, or from a wider selector, has revisions of its own.
func TestRevisionsFromElsewhere(t *testing.T) {
	path, up := t.TempDir(), newMinutely(t, 1)
	c := onDisk(t, up, path, Options{})
	before := revisionsAt(t, c, 80*hour, 90*hour-1, named("m"), 80, 84)
	require.NoError(t, c.Close())
	c = onDisk(t, up, path, Options{})
	up.asked()
	after := revisionsAt(t, c, 80*hour, 90*hour-1, named("m"), 80, 84)
	require.Empty(t, up.asked())
	require.NotZero(t, after[0])
	require.NotEqual(t, before, after)
	require.Equal(t, after, revisionsAt(t, c, 80*hour, 90*hour-1, named("m"), 80, 84))

	narrow := []*labels.Matcher{named("m")[0], labels.MustNewMatcher(labels.MatchEqual, "i", "000000")}
	taken := revisionsAt(t, c, 80*hour, 90*hour-1, narrow, 80, 84)
	require.Empty(t, up.asked())
	require.NotZero(t, taken[0])
	require.NotEqual(t, after, taken)
	require.Equal(t, taken, revisionsAt(t, c, 80*hour, 90*hour-1, narrow, 80, 84))
}

// witness remembers what samples tiles of each revision had, and fails when others
// claim to be the same.
type witness struct {
	mu   sync.Mutex
	seen map[claim]uint64
	// again is how often a claim was seen another time.
	again int
}

type claim struct {
	selector string
	revision uint64
	tile     int64 // its start, ms
}

// check looks at an answer for mint to maxt (ms, both included), whose samples are
// got.
func (w *witness) check(sel *selection.Selection, got map[string][]sample, mint, maxt, length int64) error {
	p := sel.Provenance
	if p == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[claim]uint64{}
	}
	names := slices.Sorted(maps.Keys(got))
	for _, s := range p.Settled {
		for from := tile.Floor(max(s.From, mint)+length-1, length); from+length <= min(s.To, maxt+1); from += length {
			h := fnv.New64a()
			for _, name := range names {
				ss := got[name]
				lo, _ := slices.BinarySearchFunc(ss, from, func(s sample, t int64) int { return int(s.T - t) })
				for _, s := range ss[lo:] {
					if s.T >= from+length {
						break
					}
					fmt.Fprint(h, name, s)
				}
			}
			c := claim{p.Selector, s.Revision, from}
			was, ok := w.seen[c]
			if ok && was != h.Sum64() {
				return fmt.Errorf("revision %d of %q from %d on is not what it was", s.Revision, p.Selector, from)
			}
			if ok {
				w.again++
			}
			w.seen[c] = h.Sum64()
		}
	}
	return nil
}

func TestWitness(t *testing.T) {
	var w witness
	from := &selection.Provenance{Settled: []selection.Settled{{From: 0, To: 3 * hour, Revision: 7}}}
	a, b := minutely(t, 1, 0, 3*hour), minutely(t, 2, 0, 3*hour)
	a.Provenance, b.Provenance = from, from
	samples := func(s *selection.Selection) map[string][]sample {
		got, _ := read(t, s.SeriesSet(0, 3*hour, nil))
		return got
	}
	for range 2 {
		require.NoError(t, w.check(a, samples(a), 0, 3*hour, hour))
	}
	require.Equal(t, 3, w.again)
	require.Error(t, w.check(b, samples(b), 0, 3*hour, hour))
}

// written is an upstream's answer: n series with a sample a minute from mint to maxt, of the given
// values, in chunks of a number of samples.
func written(t *testing.T, n int, mint, maxt int64, perChunk int, value func(series int, at int64) float64) *selection.Selection {
	b := selection.NewBuilder(0)
	for i := range n {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
		for from := mint; from <= maxt; from += int64(perChunk) * minute {
			last := min(from+int64(perChunk-1)*minute, maxt)
			data := selectiontest.Encode(t, chunkenc.EncXOR, selectiontest.TimesBetween(from, last, minute), func(at int64) float64 { return value(i, at) })
			require.NoError(t, b.Chunk(chunkenc.EncXOR, from, last/minute*minute, data))
		}
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// TestCorrect: what an upstream has changed, or gave wrongly for a while, is counted when it is
// fetched again, and said in the log with a series, a time and both values.
func TestCorrect(t *testing.T) {
	right := func(series int, at int64) float64 { return float64(series*1000) + float64(at/minute) }
	for _, test := range []struct {
		name     string
		n        int // series of the first answer
		perChunk int
		value    func(series int, at int64) float64
		counted  int64
		says     string
	}{
		{"nothing has changed", 3, 30, right, 0, ""},
		{"the same samples in other chunks", 3, 17, right, 0, ""},
		{"values of one series were wrong", 3, 30, func(i int, at int64) float64 {
			if i == 1 && at == 81*hour {
				return -7
			}
			return right(i, at)
		}, 1, `{__name__=\"m\", i=\"1\"} at 1970-01-04T09:00:00Z: it was -7 and is 5860`},
		{"all values were wrong", 3, 30, func(int, int64) float64 { return 1 }, 3, `i=\"0\"} at 1970-01-04T08:00:00Z: it was 1 and is 4800`},
		{"there was no last series", 2, 30, right, 1, `i=\"2\"} at 1970-01-04T08:00:00Z: it was nothing and is 6800`},
		{"there was a series too many", 4, 30, right, 1, `i=\"3\"} at 1970-01-04T08:00:00Z: it was 7800 and is nothing`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log testlog.Log
			first := true
			up := having(func(mint, maxt int64) *selection.Selection {
				if first {
					return written(t, test.n, mint, maxt, test.perChunk, test.value)
				}
				return written(t, 3, mint, maxt, 30, right)
			})
			c, clock := clocked(t, up, Options{MaxAge: 6 * time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			query(t, c, 80*hour, 84*hour-1, "m")
			first = false
			*clock += hour
			query(t, c, 80*hour, 86*hour-1, "m") // of which a part is new
			landed(t, c)
			require.Zero(t, counted(c.metrics.corrected))
			*clock += 6 * hour
			got := query(t, c, 80*hour, 84*hour-1, "m")
			landed(t, c)
			require.Len(t, got, 3)
			require.Equal(t, test.counted, counted(c.metrics.corrected))
			require.Equal(t, int(min(test.counted, 1)), log.Count("other samples"))
			require.Equal(t, int(min(test.counted, 1)), log.Count(test.says)*int(min(test.counted, 1)), &log)
			*clock += 7 * hour
			query(t, c, 80*hour, 84*hour-1, "m")
			landed(t, c)
			require.Equal(t, test.counted, counted(c.metrics.corrected), "once")
		})
	}
}
