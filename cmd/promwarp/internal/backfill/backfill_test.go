package backfill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/remoteread/tsdbdir"
	"github.com/promwarp/promwarp/selection"
)

// dataStart is a border of blocks of all lengths up to 6 h.
var dataStart = time.UnixMilli(1_700_006_400_000).Truncate(6 * time.Hour)

const dataHours = 10

var opts = promql.EngineOpts{
	MaxSamples: 50_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
	NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 },
	Parser:                   parser.NewParser(parser.Options{EnableExperimentalFunctions: true}),
}

// world is samples in a data directory, read by promwarp and by Prometheus.
type world struct {
	raw      *tsdb.DB
	upstream *cache.Cache
	engine   *engine.Engine
}

// newWorld makes samples of series that begin and end, with gaps and stale markers.
func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	from, to := dataStart.UnixMilli(), dataStart.Add(dataHours*time.Hour).UnixMilli()
	var all []storage.Series
	for job := range 3 {
		for instance := range 5 {
			l := labels.FromStrings("job", fmt.Sprint("j", job), "instance", fmt.Sprint("i", instance))
			requests, size := promql.Series{}, promql.Series{}
			up := labels.NewBuilder(l).Set("__name__", "up").Labels()
			requests.Metric = labels.NewBuilder(l).Set("__name__", "requests_total").Labels()
			size.Metric = labels.NewBuilder(l).Set("__name__", "size").Labels()
			ups := promql.Series{Metric: up}
			latency := promql.Series{Metric: labels.NewBuilder(l).Set("__name__", "latency").Labels()}
			there, next, count := random.IntN(2) == 0, from, 0.0
			for at := from + random.Int64N(15_000); at < to; at += 30_000 {
				if at >= next {
					if there {
						for _, s := range []*promql.Series{&requests, &size} {
							s.Floats = append(s.Floats, promql.FPoint{T: at, F: staleNaN})
						}
						if len(latency.Histograms) > 0 {
							latency.Histograms = append(latency.Histograms, promql.HPoint{T: at, H: &histogram.FloatHistogram{Sum: staleNaN}})
						}
					}
					there = !there
					next = at + int64(random.ExpFloat64()*4*3600_000)
					continue
				}
				ups.Floats = append(ups.Floats, promql.FPoint{T: at, F: map[bool]float64{true: 1, false: 0}[there]})
				if !there || random.IntN(30) == 0 {
					continue
				}
				if count += float64(random.IntN(40)); random.IntN(900) == 0 {
					count = 0
				}
				requests.Floats = append(requests.Floats, promql.FPoint{T: at, F: count})
				size.Floats = append(size.Floats, promql.FPoint{T: at, F: random.NormFloat64() * 100})
				latency.Histograms = append(latency.Histograms, promql.HPoint{T: at, H: tsdbutil.GenerateTestFloatHistogram(int64(count))})
			}
			for _, s := range []promql.Series{requests, size, ups, latency} {
				if len(s.Floats)+len(s.Histograms) > 0 {
					all = append(all, promql.NewStorageSeries(s))
				}
			}
		}
	}
	dir := t.TempDir()
	_, err := tsdb.CreateBlock(all, dir, 2*(to-from), promslog.NewNopLogger())
	require.NoError(t, err)
	w := &world{}
	w.raw, err = tsdb.Open(dir, nil, nil, &tsdb.Options{RetentionDuration: 0, MinBlockDuration: to - from, MaxBlockDuration: to - from}, nil)
	require.NoError(t, err)
	w.raw.DisableCompactions()
	t.Cleanup(func() { w.raw.Close() })
	up, err := tsdbdir.Open(dir, nil)
	require.NoError(t, err)
	w.upstream = cache.New(up, cache.Options{})
	w.engine = engine.New(engine.Options{Prometheus: opts})
	t.Cleanup(func() {
		w.engine.Close()
		w.upstream.Close()
		up.Close()
	})
	return w
}

// both reads from several storages.
type both []storage.Queryable

func (b both) Querier(mint, maxt int64) (storage.Querier, error) {
	var all []storage.Querier
	for _, one := range b {
		q, err := one.Querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	return storage.NewMergeQuerier(all, nil, storage.ChainedSeriesMerge), nil
}

// live has Prometheus's groups evaluate rule files at each of their times, in order, and returns what
// they recorded.
func (w *world) live(t *testing.T, o Options) map[string][]string {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), nil, nil, &tsdb.Options{MinBlockDuration: 1000 * 3600_000, MaxBlockDuration: 1000 * 3600_000}, nil)
	require.NoError(t, err)
	defer db.Close()
	db.DisableCompactions()
	e := promql.NewEngine(opts)
	defer e.Close()
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(e, both{w.raw, db}), Appendable: db, Context: t.Context(), Logger: promslog.NewNopLogger(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Parser: opts.Parser, NameValidationScheme: model.UTF8Validation,
		DefaultRuleQueryOffset: func() time.Duration { return o.QueryOffset },
	})
	loaded, errs := m.LoadGroups(o.Interval, labels.EmptyLabels(), "", nil, false, o.Files...)
	require.Empty(t, errs)
	type turn struct {
		at    time.Time
		group *rules.Group
	}
	var turns []turn
	for _, g := range loaded {
		for _, r := range g.AlertingRules() {
			r.SetRestored(true)
		}
		at := g.EvalTimestamp(o.Start.Add(g.QueryOffset()).UnixNano())
		for ; timestamp.FromTime(at.Add(-g.QueryOffset())) <= o.End.UnixMilli(); at = at.Add(g.Interval()) {
			if timestamp.FromTime(at.Add(-g.QueryOffset())) >= o.Start.UnixMilli() {
				turns = append(turns, turn{at, g})
			}
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return a.at.Compare(b.at) })
	for _, turn := range turns {
		turn.group.Eval(t.Context(), turn.at)
	}
	return contents(t, db)
}

// contents are all samples of a database as text, the bits of values included.
func contents(t *testing.T, db storage.Queryable) map[string][]string {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	all := map[string][]string{}
	for set.Next() {
		var list []string
		it := set.At().Iterator(nil)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			if kind == chunkenc.ValFloat {
				at, v := it.At()
				list = append(list, fmt.Sprintf("%d %x", at, math.Float64bits(v)))
				continue
			}
			at, h := it.AtFloatHistogram(nil)
			list = append(list, fmt.Sprintf("%d %x %s", at, math.Float64bits(h.Sum), h))
		}
		require.NoError(t, it.Err())
		all[set.At().Labels().String()] = list
	}
	require.NoError(t, set.Err())
	return all
}

// options are those of a run over the world's samples.
func (w *world) options(t *testing.T, files ...string) Options {
	t.Helper()
	o := Options{
		Interval: time.Minute, Start: dataStart.Add(90 * time.Minute), End: dataStart.Add((dataHours - 2) * time.Hour),
		Output: filepath.Join(t.TempDir(), "out"), BlockDuration: 2 * time.Hour, Share: 1, Parser: opts.Parser, Upstream: w.upstream, Engine: w.engine,
		Progress: func(float64, time.Time, string) {}, Warn: func(text string) { t.Log(text) },
	}
	for i, text := range files {
		file := filepath.Join(t.TempDir(), fmt.Sprintf("rules%d.yml", i))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		o.Files = append(o.Files, file)
	}
	return o
}

// backfilled are the samples of the blocks that a run wrote, read by Prometheus.
func backfilled(t *testing.T, o Options) map[string][]string {
	t.Helper()
	duration := o.BlockDuration.Milliseconds()
	db, err := tsdb.Open(o.Output, nil, nil, &tsdb.Options{MinBlockDuration: duration, MaxBlockDuration: duration}, nil)
	require.NoError(t, err)
	defer db.Close()
	db.DisableCompactions()
	for _, b := range db.Blocks() {
		require.Equal(t, b.MinTime()/duration, (b.MaxTime()-1)/duration, "a block crosses a border")
	}
	return contents(t, db)
}

func requireSame(t *testing.T, want, got map[string][]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		assert.NotEmpty(t, got[name], "%s is missing", name)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		assert.NotEmpty(t, want[name], "%s is not recorded live", name)
	}
	for name, samples := range want {
		for i := range min(len(samples), len(got[name])) {
			require.Equal(t, samples[i], got[name][i], "%s, sample %d", name, i)
		}
		require.Len(t, got[name], len(samples), name)
	}
}

// chains are rules over what other rules record.
const chains = `
groups:
- name: first
  interval: 1m
  rules:
  - {record: 'instance:requests:rate5m', expr: 'rate(requests_total[5m])'}
  - {record: 'job:requests:rate5m', expr: 'sum by (job) (instance:requests:rate5m)', labels: {level: job}}
  - {record: 'job:requests:avg1h', expr: 'avg_over_time(job:requests:rate5m[1h])'}
- name: second
  interval: 2m
  labels: {team: a}
  rules:
  - {record: 'job:requests:avg1d', expr: 'avg_over_time(job:requests:avg1h[1d])'}
  - {record: 'job:size', expr: 'max by (job) (size) > 100'}
  - {record: 'job:size:changes', expr: 'changes(job:size[30m])'}
  - {record: 'constant', expr: '42'}
  - {record: 'none', expr: 'absent(up)'}
  - {record: 'latency:rate', expr: 'sum by (job) (rate(latency[5m]))'}
  - {record: 'latency:sum', expr: 'histogram_sum(latency:rate)'}
`

const limits = `
groups:
- name: limited
  interval: 45s
  limit: 8
  query_offset: 90s
  labels: {by: rule}
  rules:
  - {record: 'limited:size', expr: 'size', labels: {instance: ''}}
  - {record: 'limited:requests', expr: 'requests_total > 100', labels: {kind: large}}
  - {record: 'limited:latency', expr: 'latency'}
  - {record: 'limited:same', expr: 'size{instance="i0"} or requests_total{instance="i0"}'}
- name: matching
  interval: 1m
  rules:
  - {record: 'many', expr: 'size{job="j0"} * on (job) requests_total{job="j0"}'}
  - {record: 'joined', expr: 'size * on (job, instance) requests_total'}
  - {record: 'shared', expr: 'size{job="j0"}', labels: {job: x}}
  - {record: 'shared', expr: 'size{job="j1"}', labels: {job: x}}
  - {record: 'start', expr: 'sum(size @ end())'}
`

const alerts = `
groups:
- name: alerts
  interval: 1m
  rules:
  - {alert: Down, expr: 'up == 0', for: 10m, labels: {severity: page, who: '{{ $labels.job }}'}}
  - {alert: Large, expr: 'size > 100', for: 1m, keep_firing_for: 5m, labels: {size: '{{ $value }}'}}
  - {alert: Busy, expr: 'sum by (job) (rate(requests_total[5m])) > 1.4', keep_firing_for: 20m, annotations: {summary: '{{ query "up" }}'}}
  - {record: 'alerts:firing', expr: 'count by (alertname) (ALERTS{alertstate="firing"})'}
- name: limited
  limit: 4
  query_offset: 1m
  rules:
  - {alert: Limited, expr: 'up == 0', for: 5m}
`

// cycles are rules of which one range query each would not do.
const cycles = `
groups:
- name: cycle
  interval: 3m
  rules:
  - {record: 'late', expr: 'later + 1'}
  - {record: 'counter', expr: '(counter or vector(0)) + 1'}
  - {record: 'a', expr: 'sum(b) or vector(1)'}
  - {record: 'b', expr: 'a * 1.5 < 1e6'}
  - {record: 'later', expr: 'sum(size)'}
- name: delayed
  interval: 3m
  query_offset: 4m
  rules:
  - {record: 'delayed', expr: 'sum(up)'}
- name: reader
  interval: 3m
  rules:
  - {record: 'reader', expr: 'count_over_time(delayed[10m])'}
  - {record: 'all', expr: 'count({__name__=~"size|later|delayed|counter"})'}
`

var kinds = map[string]string{"chains": chains, "limits": limits, "alerts": alerts, "cycles": cycles}

// Blocks hold what Prometheus's groups recorded that were evaluated live, bit for bit.
func TestSameAsLive(t *testing.T) {
	for kind, text := range kinds {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, 1)
			o := w.options(t, text)
			o.Alerts, stretch = true, 4*time.Hour
			want := w.live(t, o)
			sum, err := Run(t.Context(), o)
			require.NoError(t, err)
			t.Log(sum)
			requireSame(t, want, backfilled(t, o))
		})
	}
}

// A run that is stopped at any moment, and again, comes to the same blocks as one that is not.
func TestResume(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	w := newWorld(t, seed)
	for kind, text := range kinds {
		t.Run(kind, func(t *testing.T) {
			o := w.options(t, text)
			o.Alerts, o.BlockDuration = true, []time.Duration{2, 6}[random.IntN(2)]*time.Hour
			stretch = time.Duration(1+random.IntN(3)) * 2 * time.Hour
			want := w.live(t, o)
			stops := 0
			for {
				ctx, cancel := context.WithCancel(t.Context())
				left := random.IntN(25)
				o.Progress = func(float64, time.Time, string) {
					if left--; left == 0 {
						cancel()
					}
				}
				_, err := Run(ctx, o)
				cancel()
				if err == nil {
					break
				}
				require.ErrorContains(t, err, "interrupted: what is before ")
				stops++
			}
			t.Logf("%d stops, blocks of %s, stretches of %s", stops, o.BlockDuration, stretch)
			requireSame(t, want, backfilled(t, o))
		})
	}
}

// A run that dies between its steps leaves what the next one finishes.
func TestDiesBetweenSteps(t *testing.T) {
	w := newWorld(t, 3)
	o := w.options(t, chains)
	stretch = 2 * time.Hour
	want := w.live(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(part float64, _ time.Time, _ string) {
		if part > 0.6 {
			cancel()
		}
	}
	_, err := Run(ctx, o)
	require.ErrorContains(t, err, "the same command goes on from there")
	blocks, err := filepath.Glob(filepath.Join(o.Output, "0*"))
	require.NoError(t, err)
	require.NotEmpty(t, blocks)
	// The state names the last block, which was not moved; another was not named.
	last := filepath.Base(blocks[len(blocks)-1])
	require.NoError(t, os.Rename(filepath.Join(o.Output, last), filepath.Join(o.made(), last)))
	require.NoError(t, os.Mkdir(filepath.Join(o.made(), "01HV0000000000000000000000.tmp-for-creation"), 0o700))
	o.Progress = func(float64, time.Time, string) {}
	_, err = Run(t.Context(), o)
	require.NoError(t, err)
	requireSame(t, want, backfilled(t, o))

	sum, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, sum, "all is done")
	o.End = o.End.Add(time.Hour)
	sum, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 1, sum.Blocks, "a later end goes on")
}

// failing fails the first fetches.
type failing struct {
	selection.Source
	left *int
}

func (f failing) Open(r selection.Request, mint, maxt int64) selection.Reader {
	if *f.left > 0 {
		*f.left--
		return failingReader{}
	}
	return f.Source.Open(r, mint, maxt)
}

type failingReader struct{ selection.Reader }

func (failingReader) Close() error { return nil }

func (failingReader) BeginChunks(asks []selection.Ask) []selection.Get {
	gets := make([]selection.Get, len(asks))
	for i := range gets {
		gets[i] = func(context.Context) (*selection.Selection, annotations.Annotations, error) {
			return nil, nil, errors.New("the upstream is away")
		}
	}
	return gets
}

// What is wrong is named, with what to do.
func TestRefuses(t *testing.T) {
	w := newWorld(t, 4)
	const one = "groups: [{name: g, rules: [{record: one, expr: sum(up)}, {alert: A, expr: up == 0}]}]"
	run := func(o Options) string {
		_, err := Run(t.Context(), o)
		require.Error(t, err)
		return err.Error()
	}
	o := w.options(t, "groups: [{name: g, rules: [{alert: A, expr: up}]}]")
	require.Contains(t, run(o), "no recording rule in "+o.Files[0])
	require.Contains(t, run(w.options(t, "groups: [{name: g, rules: [{record: a, expr: '1 +'}]}]")), "unexpected end of input")
	o = w.options(t, `groups: [{name: g, rules: [{alert: A, expr: up == 0, labels: {n: '{{ query "up" | len }}'}}]}]`)
	o.Alerts = true
	require.Contains(t, run(o), "a template of its labels asks for up, which is not evaluated")
	o = w.options(t, one, one)
	o.Path = "/etc/rules.yml"
	require.Contains(t, run(o), "give their directory, with a / at its end")
	require.Contains(t, run(w.options(t, "groups: [{name: g, rules: [{record: up, expr: 'vector(1)'}]}]")), `the upstream has samples of {__name__="up"} from about 2023-11-15T01:30:`)

	o = w.options(t, one)
	require.NoError(t, os.WriteFile(o.Output, nil, 0o600))
	require.Contains(t, run(o), "give another by --output")

	o = w.options(t, one)
	_, err := Run(t.Context(), o)
	require.NoError(t, err)
	changed := o
	changed.Alerts = true
	require.Contains(t, run(changed), "other rules, or other flags")
	changed = o
	changed.Start = o.Start.Add(time.Hour)
	require.Contains(t, run(changed), "give --start=2023-11-15T01:30:00Z to go on")
	require.NoError(t, os.RemoveAll(o.own()))
	require.Contains(t, run(o), "is of another origin: give an empty directory")
}

// A rule without results is named; one that the upstream fails is asked again.
func TestWarnsAndRetries(t *testing.T) {
	w := newWorld(t, 5)
	o := w.options(t, "groups: [{name: g, rules: [{record: one, expr: sum(up)}, {record: empty, expr: nothing}]}]")
	var warned []string
	o.Warn = func(text string) { warned = append(warned, text) }
	left := 2
	o.Upstream = failing{w.upstream, &left}
	firstPause = time.Millisecond
	defer func() { firstPause = time.Second }()
	sum, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Positive(t, sum.Samples)
	require.Zero(t, left)
	require.Len(t, warned, 1)
	require.Contains(t, warned[0], "rule empty of group g in "+o.Files[0]+" wrote nothing")

	o.Output, left = filepath.Join(t.TempDir(), "out"), 1000
	mostPause = 4 * time.Millisecond
	defer func() { mostPause = 16 * time.Second }()
	_, err = Run(t.Context(), o)
	require.ErrorContains(t, err, "the upstream is away: what is before 2023-11-15T01:30:00Z is done, and the same command goes on from there")
}
