package dataset

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type sample struct {
	t int64
	v uint64 // the bits
}

// start is not on a block's boundary.
var start = time.Date(2026, 3, 1, 7, 13, 0, 0, time.UTC).UnixMilli()

func options(hours, instances int) Options {
	return Options{Start: start, End: start + int64(hours)*3_600_000, Interval: 15 * time.Second, Series: 68 * instances, Seed: 7}
}

func small(hours int) Options { return options(hours, 8) }

// collector is an appender that hands samples on; ref is 0 where those of a series begin.
type collector struct {
	storage.Appender // has no more than the method below
	sample           func(ref storage.SeriesRef, l labels.Labels, t int64, v float64)
}

func (c collector) Append(ref storage.SeriesRef, l labels.Labels, t int64, v float64) (storage.SeriesRef, error) {
	c.sample(ref, l, t, v)
	return 1, nil
}

// next hands on all samples before until that were not generated yet.
func (g *Generator) next(until int64, sample func(ref storage.SeriesRef, l labels.Labels, t int64, v float64)) error {
	for _, target := range g.targets {
		if err := g.window(target, until, collector{sample: sample}); err != nil {
			return err
		}
	}
	return nil
}

// generate collects what a generator emits in the given number of steps.
func generate(t *testing.T, o Options, steps int64) (map[string][]sample, Stats) {
	t.Helper()
	g, err := New(o)
	require.NoError(t, err)
	got := map[string][]sample{}
	key := ""
	for i := int64(1); i <= steps; i++ {
		until := o.Start + (o.End-o.Start)*i/steps
		require.NoError(t, g.next(until, func(ref storage.SeriesRef, l labels.Labels, t int64, v float64) {
			if ref == 0 {
				key = l.String()
			}
			got[key] = append(got[key], sample{t, math.Float64bits(v)})
		}))
	}
	return got, g.Stats()
}

// TestDigest: the samples are those that answers in tests were made of.
func TestDigest(t *testing.T) {
	o := options(30, 12)
	g, err := New(o)
	require.NoError(t, err)
	h := fnv.New64a()
	require.NoError(t, g.next(o.End, func(ref storage.SeriesRef, l labels.Labels, t int64, v float64) {
		var text []byte
		if ref == 0 {
			text = []byte(l.String())
		}
		_, _ = h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(text, uint64(t)), math.Float64bits(v)))
	}))
	require.Equal(t, "78f20cbe040cfe01", fmt.Sprintf("%x", h.Sum64()))
}

func TestDeterministic(t *testing.T) {
	o := small(6)
	want, wantStats := generate(t, o, 1)
	for _, steps := range []int64{1, 3, 77} {
		got, gotStats := generate(t, o, steps)
		require.Equal(t, want, got, "in %d steps", steps)
		require.Equal(t, wantStats, gotStats, "in %d steps", steps)
	}
	o.Seed++
	other, _ := generate(t, o, 1)
	require.NotEqual(t, want, other, "another seed")
}

// Jitter moves samples by less than 4 ms, of a scrape alike or each by itself.
func TestJitter(t *testing.T) {
	o := small(3)
	due, _ := generate(t, o, 1)
	for _, kind := range []string{"scrape", "series"} {
		o.Jitter = kind
		got, _ := generate(t, o, 7)
		late, atOnce := map[int64]bool{}, map[int64]int64{} // distances; of the samples due at a time
		same := true
		for key, want := range due {
			require.Len(t, got[key], len(want))
			for i, s := range want {
				by := got[key][i].t - s.t
				require.Equal(t, s.v, got[key][i].v)
				late[by] = true
				if before, ok := atOnce[s.t]; ok {
					same = same && before == by
				}
				atOnce[s.t] = by
			}
		}
		require.Equal(t, map[int64]bool{0: true, 1: true, 2: true, 3: true}, late)
		require.Equal(t, kind == "scrape", same)
	}
	o.Jitter = "some"
	_, err := New(o)
	require.ErrorContains(t, err, "there is no jitter")
}

func TestContent(t *testing.T) {
	o := options(24, 25)
	data, stats := generate(t, o, 5)
	require.Equal(t, len(data), stats.Series)
	require.InEpsilon(t, o.Series, stats.Series, 0.05)

	byName := map[string]int{}
	var samples, stale, resets, gaps, jittered, zeros, constants int64
	minT, maxT := int64(math.MaxInt64), int64(0)
	for key, ss := range data {
		name := key[strings.Index(key, `__name__="`)+10:]
		name = name[:strings.IndexByte(name, '"')]
		byName[name]++
		samples += int64(len(ss))
		minT, maxT = min(minT, ss[0].t), max(maxT, ss[len(ss)-1].t)
		counter := strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_count") || strings.HasSuffix(name, "_sum")
		constant, last := true, math.NaN()
		for i, s := range ss {
			v := math.Float64frombits(s.v)
			if i > 0 {
				if s.t <= ss[i-1].t {
					t.Fatalf("%s is not sorted", key)
				}
				switch d := s.t - ss[i-1].t; {
				case d > 60_000:
					gaps++
				case d%15_000 != 0:
					jittered++
					if name == "http_requests_total" {
						t.Fatalf("irregular scrape of %s at %d", key, s.t)
					}
				}
			}
			if value.IsStaleNaN(v) {
				stale++
				continue
			}
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				t.Fatalf("%s is %g", key, v)
			}
			if v < last && counter {
				resets++
			}
			if name == "up" && v == 0 {
				zeros++
			}
			constant = constant && (v == last || math.IsNaN(last))
			last = v
		}
		if constant {
			constants++
		}
	}
	require.Equal(t, 25*32, byName["http_requests_total"])
	require.Equal(t, 25*12, byName["node_cpu_seconds_total"])
	require.Equal(t, 25*5, byName["node_memory_bytes"])
	require.Equal(t, 25*10, byName["http_request_duration_seconds_bucket"])
	require.Equal(t, 25, byName["http_request_duration_seconds_sum"])
	require.Equal(t, 25, byName["http_request_duration_seconds_count"])
	require.Equal(t, 25, byName["process_resident_memory_bytes"])
	require.Equal(t, 25, byName["app_build_info"])
	require.Equal(t, 50, byName["up"])
	require.Greater(t, byName["kube_pod_memory_working_set_bytes"], 50)

	require.Equal(t, samples, stats.Samples)
	require.GreaterOrEqual(t, minT, o.Start)
	require.Less(t, maxT, o.End)
	require.Greater(t, resets, int64(500))
	require.Greater(t, gaps, int64(100))
	require.Greater(t, stale, int64(100))
	require.Greater(t, jittered, int64(10_000))
	require.Greater(t, zeros, int64(10))
	require.GreaterOrEqual(t, constants, int64(25))
	t.Logf("%d series, %d samples, %d stale markers, %d falls, %d gaps", stats.Series, samples, stale, resets, gaps)
}

func TestHistogramBucketsAscend(t *testing.T) {
	h := histogram(make([]*series, len(bounds)+2), newRNG(1, "h", 1), 50, 0.05)
	s := scraper{first: start, last: start, interval: 15_000, resets: true, outages: newOutages(1, 1, start), incidents: newIncidents(1, 1, start)}
	var below []float64
	emitted := 0
	require.NoError(t, h.window(s.until(start+24*3_600_000), func(_ *series, _ []int64, v []float64) error {
		if emitted == 0 {
			below = append(below, v...)
		} else if emitted != len(bounds) { // not the sum
			for i := range v {
				require.False(t, v[i] < below[i])
				below[i] = v[i]
			}
		}
		emitted++
		return nil
	}))
	require.NotEmpty(t, below)
}

// The data set reads back from blocks as it was generated.
func TestWriteBlocks(t *testing.T) {
	o := small(5)
	want, wantStats := generate(t, o, 1)
	dir := t.TempDir()
	var parts []float64
	g, err := New(o)
	require.NoError(t, err)
	require.NoError(t, g.WriteBlocks(context.Background(), dir, o.End, func(part float64) { parts = append(parts, part) }))
	require.Len(t, parts, 4)
	require.IsIncreasing(t, parts)
	require.Equal(t, 1.0, parts[3])
	require.Equal(t, wantStats, g.Stats())

	blocks, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	require.NoError(t, err)
	require.Len(t, blocks, 4)
	opts := tsdb.DefaultOptions()
	opts.RetentionDuration = 0
	db, err := tsdb.Open(dir, promslog.NewNopLogger(), nil, opts, nil)
	require.NoError(t, err)
	defer db.Close()
	db.DisableCompactions()
	requireHolds(t, db, want)

	o.Block = 54 * time.Hour
	dir = t.TempDir()
	stats, err := WriteBlocks(context.Background(), dir, o)
	require.NoError(t, err)
	require.Equal(t, wantStats, stats)
	blocks, err = filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	require.NoError(t, err)
	require.Len(t, blocks, int((o.End-1)/o.Block.Milliseconds()-o.Start/o.Block.Milliseconds())+1)

	// A generator goes on where its blocks end.
	g, err = New(o)
	require.NoError(t, err)
	require.NoError(t, g.WriteBlocks(context.Background(), t.TempDir(), o.End-3_600_000, func(float64) {}))
	require.NoError(t, g.Write(context.Background(), openTSDB(t), o.End))
	require.Equal(t, wantStats.Samples, g.Stats().Samples)
}

// Jitter of a target's first scrape brings no sample before the start: a TSDB head that holds the end
// of the block then refuses such a sample as out of bounds.
func TestNoneBeforeStart(t *testing.T) {
	o := small(2)
	o.Start = time.UnixMilli(start).Truncate(2 * time.Hour).UnixMilli()
	o.End, o.Interval, o.Series, o.Seed = o.Start+2*3_600_000, 30*time.Second, 5000, 1
	g, err := New(o)
	require.NoError(t, err)
	require.NoError(t, g.next(o.Start+60_000, func(_ storage.SeriesRef, l labels.Labels, at int64, _ float64) {
		require.GreaterOrEqual(t, at, o.Start, l)
	}))
	_, err = WriteBlocks(context.Background(), t.TempDir(), o)
	require.NoError(t, err)
}

// A TSDB with Prometheus's own settings takes the data set.
func TestWrite(t *testing.T) {
	o := small(5)
	want, wantStats := generate(t, o, 1)
	db := openTSDB(t)
	g, err := New(o)
	require.NoError(t, err)
	require.NoError(t, g.Write(context.Background(), db, o.End))
	require.Equal(t, wantStats, g.Stats())
	requireHolds(t, db, want)
}

func openTSDB(t *testing.T) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), promslog.NewNopLogger(), nil, tsdb.DefaultOptions(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func requireHolds(t *testing.T, db storage.Queryable, want map[string][]sample) {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	all := labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+")
	set := q.Select(context.Background(), false, nil, all)
	n := 0
	var it chunkenc.Iterator
	for set.Next() {
		n++
		key := set.At().Labels().String()
		var got []sample
		it = set.At().Iterator(it)
		for it.Next() != chunkenc.ValNone {
			ts, v := it.At()
			got = append(got, sample{ts, math.Float64bits(v)})
		}
		require.NoError(t, it.Err())
		require.Equal(t, want[key], got, key)
	}
	require.NoError(t, set.Err())
	require.Equal(t, len(want), n)
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Start: 5, End: 5}, "after the start"},
		{Options{End: 5, Interval: time.Millisecond}, "one second"},
	} {
		_, err := New(c.o)
		require.ErrorContains(t, err, c.want)
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := WriteBlocks(ctx, t.TempDir(), small(1))
	require.ErrorIs(t, err, context.Canceled)
	g, err := New(small(1))
	require.NoError(t, err)
	require.ErrorIs(t, g.Write(ctx, openTSDB(t), g.opts.End), context.Canceled)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = WriteBlocks(context.Background(), filepath.Join(file, "dir"), small(5))
	require.Error(t, err)
}

// TestGauges: gauges have samples of their kind at every scrape, whole or of two decimals, on time or
// up to a twentieth of the interval off.
func TestGauges(t *testing.T) {
	o := small(1)
	o.Gauges, o.Series = true, gaugesPerInstance()
	all, stats := generate(t, o, 3)
	require.Equal(t, o.Series, stats.Series)
	for key, samples := range all {
		require.Len(t, samples, 240, key)
		changed, late := 0, false
		for i, s := range samples {
			v := math.Float64frombits(s.v)
			switch {
			case strings.Contains(key, "gauge_whole"):
				require.Zero(t, math.Mod(v, page), key)
			case strings.Contains(key, "gauge_cents"):
				require.Equal(t, math.Round(v*100)/100, v, key)
			}
			if i > 0 && s.v != samples[i-1].v {
				changed++
			}
			by := s.t - samples[0].t - int64(i)*15_000
			late = late || by != 0
			require.LessOrEqual(t, max(by, -by), int64(4*750), key)
		}
		require.Greater(t, changed, 200, key)
		require.Equal(t, strings.Contains(key, "late_"), late, key)
	}
}

// TestFamilies: every instance has a series for each combination of a family's labels, buckets never
// exceed the ones above them, and a line that says too little is an error.
func TestFamilies(t *testing.T) {
	o := small(2)
	o.Series, o.Families = 18, []string{
		"counter took_bucket 50 instance=a-{}|b-{} le=1*0.2|5*0.9|+Inf", "gauge used_ratio 0.25 instance=a-{}", "fixed limit_bytes 4000 instance=a-{} kind=soft*0.5|hard",
	}
	got, stats := generate(t, o, 3)
	require.Equal(t, 18, stats.Series, "of two instances of nine")
	require.Len(t, got, 18)
	last := func(series string) float64 {
		all := got[series]
		require.NotEmpty(t, all, series)
		return math.Float64frombits(all[len(all)-1].v)
	}
	require.InDelta(t, 2000, last(`{__name__="limit_bytes", instance="a-1", kind="soft"}`), 0)
	require.Less(t, last(`{__name__="used_ratio", instance="a-0"}`), 2.0)
	for i, s := range got[`{__name__="took_bucket", instance="b-0", le="1"}`] {
		above := got[`{__name__="took_bucket", instance="b-0", le="5"}`][i]
		require.Equal(t, s.t, above.t)
		if !value.IsStaleNaN(math.Float64frombits(s.v)) {
			require.LessOrEqual(t, math.Float64frombits(s.v), math.Float64frombits(above.v))
		}
	}
	o.Series, o.Families = 10, []string{"gauge used_ratio 1 service=s-{3} pod=p-{} kind=a|b", "fixed goal 1 service=s-{3}"}
	got, stats = generate(t, o, 3)
	require.Equal(t, 13, stats.Series, "of five instances, the first three of which have a goal")
	require.Contains(t, got, `{__name__="goal", service="s-2"}`)
	require.Contains(t, got, `{__name__="used_ratio", kind="b", pod="p-4", service="s-1"}`)
	for _, line := range []string{"counter a", "gauge a x", "gauge a 1 le=1*x", "gauge a 1 le=", "other a 1"} {
		o.Families = []string{line}
		_, err := New(o)
		require.ErrorContains(t, err, "is not a kind, a name, a level and labels")
	}
}
