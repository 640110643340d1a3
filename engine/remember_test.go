package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
)

// stretch is a series with a sample every 15 s in a stretch of minutes.
type stretch struct {
	labels   labels.Labels
	from, to int64 // minutes, to excluded
	value    func(ts int64) float64
}

func lineOf(from, to int64, ls ...string) stretch {
	return stretch{labels.FromStrings(ls...), from, to, func(ts int64) float64 { return float64(ts) / 7 }}
}

// settledLines is a selection of lines, settled up to a minute in a revision.
func settledLines(t testing.TB, until int64, revision uint64, lines ...stretch) *selection.Selection {
	b := selection.NewBuilder(0)
	for _, l := range lines {
		b.Series(l.labels)
		for from := l.from * minute; from < l.to*minute; from += 30 * minute {
			c := chunkenc.NewXORChunk()
			app, err := c.Appender()
			require.NoError(t, err)
			last := from
			for ts := from; ts < min(from+30*minute, l.to*minute); ts += 15_000 {
				app.Append(0, ts, l.value(ts))
				last = ts
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, from, last, c.Bytes()))
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return from(s, &selection.Provenance{Selector: "s", Settled: []selection.Settled{{To: until * minute, Revision: revision}}})
}

// from is s with a provenance.
func from(s *selection.Selection, p *selection.Provenance) *selection.Selection {
	out := *s
	out.Provenance = p
	return &out
}

// asking asks an engine with a memory the same as one without.
type asking struct {
	remembers, plain *Engine
	with             Request // besides the query
}

func newAsking(maxSamples int) *asking {
	opts := plainOpts()
	opts.MaxSamples, opts.Reg = maxSamples, prometheus.NewRegistry()
	return &asking{New(Options{Prometheus: opts, ResultsBytes: 1 << 20}), New(Options{Prometheus: plainOptsOf(maxSamples)}), Request{}}
}

func plainOptsOf(maxSamples int) promql.EngineOpts {
	opts := plainOpts()
	opts.MaxSamples = maxSamples
	return opts
}

// ask asks for the steps from one minute to another and returns the answer, and how
// many steps were remembered.
func (a *asking) ask(t *testing.T, sel *selection.Selection, qs string, from, to int64) (answer string, kept int) {
	t.Helper()
	data := queryable{func() (*selection.Selection, error) { return sel, nil }}
	var answers [2]string
	for i, e := range []*Engine{a.plain, a.remembers} {
		q, err := as{e, a.with}.NewRangeQuery(t.Context(), data, nil, qs, time.UnixMilli(from*minute), time.UnixMilli(to*minute), time.Minute)
		require.NoError(t, err)
		res := q.Exec(t.Context())
		answers[i] = summary(res, qs)
		if res.Err == nil {
			if s := q.Stats().Samples; a.with.Statistics {
				answers[i] += fmt.Sprintf("%d samples, %d read, at most %d at once", s.TotalSamples, s.SamplesRead, s.PeakSamples)
			}
		}
		if p := q.(*query).plan; p != nil {
			p.Root.Walk(func(d *plan.Decision) {
				if d.Remembered != nil {
					kept += d.Remembered.Kept
				}
			})
		}
		q.Close()
	}
	requireSameText(t, answers[0], answers[1], question{query: qs, start: from, end: to})
	return answers[1], kept
}

// What only some steps tell must be told when those are remembered.
func TestRememberedHidesNothing(t *testing.T) {
	other := lineOf(0, 240, "__name__", "m_total", "i", "2")
	other.value = func(ts int64) float64 { return math.Mod(float64(ts)/15_000, 7) }
	sevenths := lineOf(0, 240, "__name__", "m", "i", "1")
	late := other
	late.value = func(ts int64) float64 { return other.value(ts) + float64(max(0, ts-191*minute))/7 }
	for name, test := range map[string]struct {
		lines []stretch
		query string
		first [2]int64
		kept  int
		says  string
	}{
		"plain":          {[]stretch{lineOf(0, 240, "__name__", "m_total", "i", "1"), other}, "sum(rate(m_total[5m]))", [2]int64{10, 190}, 180, "000="},
		"several leaves": {[]stretch{lineOf(0, 240, "__name__", "m_total", "i", "1"), other}, "sum(rate(m_total[5m])) / count(m_total)", [2]int64{10, 190}, 360, "000="},
		"new series":     {[]stretch{lineOf(195, 240, "__name__", "m_total", "i", "0"), other}, "sum by (i) (rate(m_total[5m]))", [2]int64{10, 190}, 180, `{i="0"}`},
		"gone series":    {[]stretch{lineOf(0, 100, "__name__", "m_total", "i", "0"), other}, "topk(1, rate(m_total[5m]))", [2]int64{10, 190}, 180, `{i="0"}`},
		"no counter":     {[]stretch{lineOf(0, 100, "__name__", "m", "i", "1")}, "sum(rate(m[5m]))", [2]int64{10, 190}, 0, "metric might not be a counter"},
		"the same later": {[]stretch{lineOf(0, 90, "__name__", "a_total"), lineOf(110, 240, "__name__", "b_total")}, "sum(rate(m[5m]))", [2]int64{10, 100}, 0, "same labelset"},
		"order shows":    {[]stretch{lineOf(0, 240, "__name__", "m_total", "i", "1"), other}, "topk(1, sum by (i) (rate(m_total[5m])))", [2]int64{10, 190}, 180, "000="},
		"bounds":         {[]stretch{lineOf(0, 240, "__name__", "b", "le", "1"), lineOf(0, 240, "__name__", "b", "le", "+Inf")}, "histogram_quantile(0.9, sum by (le) (b))", [2]int64{10, 190}, 180, "000="},
		"equal bounds":   {[]stretch{lineOf(0, 240, "__name__", "b", "le", "1"), lineOf(0, 100, "__name__", "b", "le", "1.0")}, "histogram_quantile(0.9, sum by (le) (b))", [2]int64{10, 190}, 180, "000="},
		"ties": {[]stretch{lineOf(0, 240, "__name__", "m_total", "i", "1", "g", "a"), lineOf(0, 240, "__name__", "m_total", "i", "2", "g", "b")},
			"topk(1, count by (g) (m_total))", [2]int64{10, 190}, 180, `{g="a"}`},
		"order is of the range": {[]stretch{lineOf(0, 9, "__name__", "m_total", "a", "0", "g", "a"), lineOf(0, 240, "__name__", "m_total", "a", "2", "g", "a"), lineOf(0, 240, "__name__", "m_total", "a", "1", "g", "b")},
			"topk(1, count by (g) (count_over_time(m_total[1m])))", [2]int64{9, 190}, 181, `{g="b"} 600000=1/0 660000=1/0`},
		"means of few windows a sample":   {[]stretch{sevenths}, "sum(avg_over_time(m[12m]))", [2]int64{20, 190}, 170, "000="},
		"means of fractions":              {[]stretch{sevenths}, "sum(avg_over_time(m[13m]))", [2]int64{20, 190}, 0, "000="},
		"means of integers":               {[]stretch{other}, "sum(avg_over_time(m[13m]))", [2]int64{20, 190}, 170, "000="},
		"means of integers and fractions": {[]stretch{sevenths, other}, "sum(avg_over_time(m[13m]))", [2]int64{20, 190}, 0, "000="},
		"fractions among the new samples": {[]stretch{late}, "sum(avg_over_time(m[13m]))", [2]int64{20, 190}, 0, "000="},
		"deviations":                      {[]stretch{sevenths}, "quantile(0.5, stddev_over_time(m[6m]))", [2]int64{20, 190}, 170, "000="},
		"deviations of many windows":      {[]stretch{other}, "quantile(0.5, stddev_over_time(m[7m]))", [2]int64{20, 190}, 0, "000="},
		"not aggregated":                  {[]stretch{other}, "rate(m[5m])", [2]int64{10, 190}, 0, "000="},
		"a few steps":                     {[]stretch{other}, "sum(rate(m_total[5m]))", [2]int64{10, 40}, 0, "000="},
		"a part":                          {[]stretch{other}, "sum(rate(m_total[5m])) + sum(nope)", [2]int64{10, 190}, 360, "000="},
		"at":                              {[]stretch{other}, "sum(rate(m_total[5m] @ 6000))", [2]int64{10, 190}, 0, "{}"},
		"anchored":                        {[]stretch{other}, "sum(rate(m_total[5m] anchored))", [2]int64{10, 199}, 189, "000="},
		"smoothed":                        {[]stretch{other}, "sum(rate(m_total[5m] smoothed))", [2]int64{10, 199}, 184, "000="}, // read five minutes ahead
		"smoothed, moved":                 {[]stretch{other}, "sum(rate(m_total[5m] smoothed offset 3m))", [2]int64{10, 199}, 185, "000="},
		"smoothed instant":                {[]stretch{other}, "sum(m_total smoothed)", [2]int64{10, 199}, 184, "000="},
		"under a subquery":                {[]stretch{other}, "max_over_time(sum(rate(m_total[5m]))[10m:1m])", [2]int64{20, 190}, 179, "000="},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsking(50_000_000)
			sel := settledLines(t, 200, 1, test.lines...)
			_, kept := a.ask(t, sel, test.query, test.first[0], test.first[1])
			require.Zero(t, kept)
			answer, kept := a.ask(t, sel, test.query, test.first[0]+1, 210)
			require.Equal(t, test.kept, kept)
			require.Contains(t, answer, test.says)
		})
	}
}

// Steps at which start timestamps overlap are not remembered, as Prometheus's engine
// says how many they are.
func TestRememberedStarts(t *testing.T) {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m_total"))
	c := chunkenc.NewXOR2Chunk()
	app, err := c.Appender()
	require.NoError(t, err)
	last := int64(0)
	for ts := int64(0); ts < 240*minute; ts += 15_000 {
		start := ts - 15_000
		if ts > 100*minute && ts < 110*minute {
			start -= 7
		}
		app.Append(start, ts, 3)
		last = ts
	}
	require.NoError(t, b.Chunk(chunkenc.EncXOR2, 0, last, c.Bytes()))
	sel, err := b.Finish()
	require.NoError(t, err)
	sel = from(sel, &selection.Provenance{Selector: "s", Settled: []selection.Settled{{To: 200 * minute, Revision: 1}}})
	opts, plain := plainOpts(), plainOpts()
	opts.UseStartTimestamps, plain.UseStartTimestamps = true, true
	a := &asking{New(Options{Prometheus: opts, ResultsBytes: 1 << 20}), New(Options{Prometheus: plain}), Request{}}
	for _, qs := range []string{"sum(rate(m_total[5m]))", "sum(irate(m_total[5m]))", "sum(rate(m_total[5m] anchored))", "sum(resets(m_total[5m]))"} {
		for i, ask := range []struct {
			from, to int64
			kept     int // of the rate
			overlaps int
		}{{10, 190, 0, 14}, {11, 191, 0, 14}, {120, 190, 0, 0}, {121, 191, 70, 0}, {112, 192, 72, 3}, {112, 192, 72, 3}} {
			answer, kept := a.ask(t, sel, qs, ask.from, ask.to)
			note := fmt.Sprintf(`overlaps with previous sample timestamp for metric "m_total" (%d occurrences)`, ask.overlaps)
			if strings.Contains(qs, "sum(rate(m_total[5m]))") {
				require.Equal(t, ask.kept, kept, "%d", i)
				require.Equal(t, ask.overlaps > 0, strings.Contains(answer, note), "%d: %.300s", i, answer)
			} else {
				require.NotContains(t, answer, "overlaps")
				require.Equal(t, i > 0, kept > 0, "%s %d", qs, i)
			}
		}
	}
}

// Steps are remembered as long as every sample that they read has its revision.
func TestRememberedRevisions(t *testing.T) {
	const qs = "sum by (i) (rate(m_total[5m]))"
	one := lineOf(0, 240, "__name__", "m_total", "i", "1")
	a := newAsking(50_000_000)
	ask := func(revision uint64, from, to int64, want int, lines ...stretch) {
		t.Helper()
		_, kept := a.ask(t, settledLines(t, 200, revision, lines...), qs, from, to)
		require.Equal(t, want, kept)
	}
	ask(1, 10, 190, 0, one)
	ask(1, 10, 190, 181, one)
	ask(1, 11, 191, 180, one)
	ask(1, 20, 230, 172, one) // up to 191
	ask(1, 20, 230, 180, one) // up to 199
	ask(1, 5, 230, 190, one)  // from 10 on
	ask(1, 5, 230, 195, one)
	changed := one
	changed.value = func(ts int64) float64 { return float64(ts) / 3 }
	ask(2, 5, 230, 0, changed)
	ask(2, 5, 230, 195, changed)

	// One tile was fetched again.
	sel := settledLines(t, 200, 2, changed)
	sel = from(sel, &selection.Provenance{Selector: "s", Settled: []selection.Settled{
		{To: 60 * minute, Revision: 2}, {From: 60 * minute, To: 80 * minute, Revision: 3}, {From: 80 * minute, To: 200 * minute, Revision: 2},
	}})
	_, kept := a.ask(t, sel, qs, 5, 230)
	require.Equal(t, 199-85+1, kept, "the first step that reads nothing of it is that at 84:59.999")
	_, kept = a.ask(t, sel, qs, 5, 230)
	require.Equal(t, 195, kept)

	// Another selector, and steps between those that are known.
	_, kept = a.ask(t, from(sel, &selection.Provenance{Selector: "other", Settled: sel.Provenance.Settled}), qs, 5, 230)
	require.Zero(t, kept)
	require.LessOrEqual(t, a.remembers.results.Bytes(), int64(1<<20))
}

// Nothing is remembered for those who want all of it done, or counted.
func TestRememberedNotFor(t *testing.T) {
	sel := settledLines(t, 200, 1, lineOf(0, 240, "__name__", "m_total", "i", "1"), lineOf(30, 90, "__name__", "m_total", "i", "2"))
	for name, with := range map[string]Request{"cpu": {Mode: CPU}, "gpu": {Mode: GPU}, "statistics": {Statistics: true}} {
		a := newAsking(50_000_000)
		_, kept := a.ask(t, sel, "sum(rate(m_total[5m]))", 10, 190)
		require.Zero(t, kept)
		a.with = with
		if name != "gpu" {
			_, kept = a.ask(t, sel, "sum(rate(m_total[5m]))", 10, 190)
			require.Zero(t, kept, name)
		}
		a.with = Request{}
		_, kept = a.ask(t, sel, "sum(rate(m_total[5m]))", 10, 190)
		require.Equal(t, 181, kept)
	}
}

// With exact=bits all that functions within 1e-12 come to is remembered, and is nothing for requests without.
func TestRememberedBits(t *testing.T) {
	sel := settledLines(t, 200, 1, lineOf(0, 240, "__name__", "m", "i", "1"), lineOf(30, 90, "__name__", "m", "i", "2"))
	a := newAsking(50_000_000)
	bits := Request{Exact: plan.Bits}
	for _, c := range []struct {
		with Request
		kept int
	}{{bits, 0}, {Request{}, 0}, {bits, 171}, {Request{}, 0}} {
		a.with = c.with
		_, kept := a.ask(t, sel, "sum(avg_over_time(m[20m]))", 20, 190)
		require.Equal(t, c.kept, kept)
	}
}

// The sample limit is Prometheus's, with results remembered or not.
func TestRememberedSampleLimit(t *testing.T) {
	sel := settledLines(t, 200, 1, lineOf(0, 240, "__name__", "m_total", "i", "1"), lineOf(30, 90, "__name__", "m_total", "i", "2"))
	for _, qs := range []string{"sum(rate(m_total[5m]))", "sum(rate(m_total[5m]) * 2) / 3", "quantile(0.5, m_total)", "sum(rate(m_total[5m])) > sum(m_total)"} {
		passed, remembered := 0, 0
		for limit := 1; limit < 3000; limit += 7 {
			a := newAsking(limit)
			answer, _ := a.ask(t, sel, qs, 10, 180)
			_, kept := a.ask(t, sel, qs, 11, 190)
			if answer[0] == '[' {
				passed++
			}
			if kept > 0 {
				remembered++
			}
		}
		require.Positive(t, remembered, qs)
		require.Less(t, remembered, passed, qs)
		require.Less(t, passed, 3000/7, qs)
	}
}

// The samples of each step are those that a whole evaluation counts.
func TestRememberedSamples(t *testing.T) {
	lines := []stretch{lineOf(0, 240, "__name__", "m_total", "i", "1"), lineOf(30, 90, "__name__", "m_total", "i", "2"), lineOf(195, 240, "__name__", "m_total", "i", "3")}
	sel := settledLines(t, 200, 1, lines...)
	for _, qs := range []string{"sum(rate(m_total[5m]))", "sum(count_over_time(m_total[20s]))", "sum(m_total)", "avg(rate(m_total[5m])) or sum(m_total offset 3m)"} {
		a := newAsking(0)
		for _, g := range [][2]int64{{10, 150}, {11, 151}, {11, 230}, {5, 120}, {40, 60}, {3, 235}} {
			var m [2]*plan.Matrix
			for i, memory := range []bool{false, true} {
				expr, err := parser.NewParser(parser.Options{}).ParseExpr(qs)
				require.NoError(t, err)
				stmt := &parser.EvalStmt{Expr: expr, Start: time.UnixMilli(g[0] * minute), End: time.UnixMilli(g[1] * minute), Interval: time.Minute, LookbackDelta: 5 * time.Minute}
				p, err := planner.New(t.Context(), stmt, planner.Env{})
				require.NoError(t, err)
				job := cpuexec.Job{Node: p.Node, Grid: p.Grid, CountSamples: true, Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
					return sel, nil, nil
				}}
				if memory {
					job.Results = a.remembers.results
				}
				m[i], err = a.plain.cpu.Run(t.Context(), job)
				require.NoError(t, err)
			}
			require.Equal(t, m[0].SamplesAtStep, m[1].SamplesAtStep, "%s %v", qs, g)
			require.Equal(t, m[0].NewSamplesAtStep, m[1].NewSamplesAtStep, "%s %v", qs, g)
			require.Equal(t, m[0].Rows, m[1].Rows, "%s %v", qs, g)
			require.Equal(t, m[0].Work.Series, m[1].Work.Series)
		}
	}
}

// What is all remembered needs no samples, though there are more of them than a query may hold, and
// no less so where GPUs are to be used and there are none.
func TestRememberedWhole(t *testing.T) {
	gpus, err := placement.Open(placement.Options{Options: device.Options{Library: "none.so", MemoryFraction: 1}})
	require.NoError(t, err)
	defer gpus.Close()
	var lines []stretch
	for i := range 4 {
		lines = append(lines, lineOf(0, 240, "__name__", "m_total", "le", fmt.Sprint(i)))
	}
	sel := settledLines(t, 200, 1, lines...)
	for _, qs := range []string{"sum(rate(m_total[5m]))", "histogram_quantile(0.9, sum by (le) (rate(m_total[5m])))"} {
		for _, used := range []*placement.Placer{nil, gpus} {
			a := newAsking(4 * 960)
			a.remembers.opts.GPUs = used
			for range 2 {
				a.ask(t, sel, qs, 10, 190)
			}
			data := queryable{func() (*selection.Selection, error) { return sel, nil }}
			x, err := a.remembers.Explain(t.Context(), Request{Storage: data, Query: qs, Start: time.UnixMilli(10 * minute), End: time.UnixMilli(190 * minute), Step: time.Minute}, true)
			require.NoError(t, err)
			leaf := x.Root
			for leaf.Kind != "aggregate" {
				leaf = leaf.Children[0]
			}
			require.Equal(t, &plan.KeptSteps{Kept: 181}, leaf.Remembered, "%s %v", qs, used != nil)
			require.Zero(t, x.Root.Work.Samples)
			require.Contains(t, x.Tree(), "[181 steps kept from earlier queries, 0 evaluated]")
		}
	}
}

// TestManySamples: of many samples, whose windows are too long to be evaluated ahead, no columns are
// retained where the results are remembered, and only there.
func TestManySamples(t *testing.T) {
	sevenths, integers := lineOf(0, 1<<18+1<<10, "__name__", "m"), lineOf(0, 1<<18+1<<10, "__name__", "m")
	integers.value = func(ts int64) float64 { return float64(ts % 1_000_000) }
	for name, c := range map[string]struct {
		line           stretch
		query          string
		memory         int64
		retained, kept bool
		settled        int64 // minutes; 0 for all
	}{
		"extremes":                {line: sevenths, query: "sum(max_over_time(m[1d]))", memory: 1 << 20, kept: true},
		"means of integers":       {line: integers, query: "avg(avg_over_time(m[1d]))", memory: 1 << 20, kept: true},
		"means of fractions":      {line: sevenths, query: "avg(avg_over_time(m[1d]))", memory: 1 << 20, retained: true},
		"means of short windows":  {line: sevenths, query: "avg(avg_over_time(m[12h]))", memory: 1 << 20, kept: true},
		"nothing is remembered":   {line: sevenths, query: "sum(max_over_time(m[1d]))", retained: true},
		"there is no room for it": {line: sevenths, query: "sum(max_over_time(m[1d]))", memory: 1 << 10, retained: true},
		"half of it is new":       {line: sevenths, query: "sum(max_over_time(m[1d]))", memory: 1 << 20, settled: 1 << 17, retained: true, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			sel := settledLines(t, cmp.Or(c.settled, 1<<30), 1, c.line).WithMemos(math.MaxInt64)
			e := New(Options{Prometheus: plainOpts(), ResultsBytes: c.memory, DecodedBytes: 1 << 30})
			var answers []string
			for look := range 2 {
				data := queryable{func() (*selection.Selection, error) { return sel, nil }}
				q, err := as{e, Request{}}.NewRangeQuery(t.Context(), data, nil, c.query, time.UnixMilli(100*hour), time.UnixMilli(4300*hour), time.Hour)
				require.NoError(t, err)
				answers = append(answers, summary(q.Exec(t.Context()), c.query))
				work := q.(*query).plan.Root.Work
				require.Equal(t, look == 0, work.Samples > 0, "decoded")
				require.Equal(t, c.retained, e.cpu.Columns().SizeBytes() > 0)
				require.Equal(t, look == 1 && c.kept, q.(*query).plan.Root.Remembered != nil && q.(*query).plan.Root.Remembered.Kept > 0)
				q.Close()
			}
			requireSameText(t, answers[0], answers[1], question{query: c.query})
		})
	}
}

// TestSecondLook: what the first look at a dashboard decoded or added up is there at the second.
func TestSecondLook(t *testing.T) {
	const end = 8 * hour
	db := teststorage.New(t)
	app := db.Appender(t.Context())
	for i := range 8 {
		ls := labels.FromStrings("__name__", "m_total", "job", fmt.Sprint(i%2), "i", fmt.Sprint(i))
		for ts := int64(i); ts < end; ts += 15_000 {
			_, err := app.Append(0, ls, ts, float64(ts)/7)
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	for name, c := range map[string]struct {
		query         string
		step          time.Duration
		before        int64 // how long a range was asked for before, ms; 0 for none
		now           int64
		results, room int64
		most          float64 // share of the first look's samples that the second may decode
		least         float64 // samples that the first does not decode, of all; 0 for any
	}{
		"windows that touch":            {query: "avg(avg_over_time(m_total[1h]))", step: time.Hour, now: end + 24*hour, room: 1 << 30},
		"windows that overlap":          {query: "sum(stddev_over_time(m_total[30m]))", step: time.Minute, now: end + 24*hour, room: 1 << 30},
		"up to now":                     {query: "sum(stddev_over_time(m_total[30m]))", step: time.Minute, now: end, room: 1 << 30, most: 0.1},
		"added up":                      {query: "sum by (job) (rate(m_total[5m]))", step: time.Minute, now: end + 24*hour, results: 1 << 20},
		"added up beside what is there": {query: "sum by (job) (rate(m_total[5m]))", step: time.Minute, before: 2 * hour, now: end, results: 1 << 20, most: 0.1},
		"means added up":                {query: "quantile(0.9, avg_over_time(m_total[1h]))", step: time.Hour, now: end + 24*hour, results: 1 << 20},
		"windows far apart":             {query: "sum(rate(m_total[1m])) + sum(rate(m_total[2m]))", step: time.Hour, now: end + 24*hour, room: 1 << 30, most: 4, least: 0.4},
		"no room":                       {query: "avg(avg_over_time(m_total[1h]))", step: time.Hour, now: end + 24*hour, room: 1 << 10, most: 1},
	} {
		t.Run(name, func(t *testing.T) {
			opts := plainOpts()
			reg := prometheus.NewRegistry()
			opts.Reg = reg
			e := New(Options{Prometheus: opts, Workers: 2, DecodedBytes: c.room, ResultsBytes: c.results})
			data := cache.New(chunksOf{db, &atomic.Int64{}}, cache.Options{HostBytes: 1 << 28, Now: func() time.Time { return time.UnixMilli(c.now) }})
			defer data.Close()
			decoded := func(from int64) float64 {
				before := metric(t, reg, "promwarp_cpu_samples_decoded_total")
				q, err := e.NewRangeQuery(context.Background(), selection.Storage{Source: data}, nil, c.query, time.UnixMilli(from), time.UnixMilli(end), c.step)
				require.NoError(t, err)
				defer q.Close()
				require.NoError(t, q.Exec(t.Context()).Err)
				return metric(t, reg, "promwarp_cpu_samples_decoded_total") - before
			}
			if c.before > 0 {
				decoded(end - c.before)
			}
			first := decoded(hour)
			require.Positive(t, first)
			require.LessOrEqual(t, first, 2*(1-c.least)*8*7*240, "samples of all series in seven hours, for two windows at most")
			require.LessOrEqual(t, decoded(hour), c.most*first)
		})
	}
}
