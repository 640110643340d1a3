package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/selection"
)

const hour = int64(time.Hour / time.Millisecond)

// writeSeries appends up to n samples of a series of some kind, from ts (ms) on. Some are
// late.
func writeSeries(t *testing.T, db *tsdb.DB, r *rand.Rand, l labels.Labels, n int, ts int64) {
	t.Helper()
	app := db.AppenderV2(context.Background())
	kind, count, begun := r.IntN(4), int64(0), ts
	var late []int64
	for k := range n {
		ts += 1 + r.Int64N(60_000)
		if r.IntN(40) == 0 {
			begun, count = ts, 0
		}
		if kind < 2 && r.IntN(20) == 0 {
			late = append(late, ts)
			continue
		}
		count += r.Int64N(5)
		st := int64(0)
		if kind%2 == 0 {
			st = begun - 1
		}
		var v float64
		var h *histogram.Histogram
		var fh *histogram.FloatHistogram
		switch {
		case kind == 2 && k%50 == 49:
			h = &histogram.Histogram{Sum: math.Float64frombits(value.StaleNaN)}
		case kind == 2:
			h = tsdbutil.GenerateTestHistogram(count)
		case kind == 3:
			fh = tsdbutil.GenerateTestFloatHistogram(count)
		default:
			v = someFloat(r, k%50 == 49)
		}
		_, err := app.Append(0, l, st, ts, v, h, fh, storage.AOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
	app = db.AppenderV2(context.Background())
	for _, at := range late {
		_, err := app.Append(0, l, 0, at, someFloat(r, false), nil, nil, storage.AOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
}

// newTSDB returns a database with blocks, a head, and samples out of order.
func newTSDB(t *testing.T, r *rand.Rand, enc chunkenc.Encoding) *teststorage.TestStorage {
	t.Helper()
	db := teststorage.New(t, func(o *tsdb.Options) {
		o.MinBlockDuration, o.MaxBlockDuration = 2*hour, 2*hour
		o.OutOfOrderTimeWindow = 100 * hour
		o.FloatChunkEncoding = enc
		o.EnableSTStorage = enc == chunkenc.EncXOR2
		o.EnableHistogramSTEncoding = enc == chunkenc.EncXOR2
	})
	for i := range 12 {
		writeSeries(t, db.DB, r, labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i)), 700, r.Int64N(hour))
	}
	require.NoError(t, db.Compact(context.Background()))
	require.NotEmpty(t, db.Blocks())
	return db
}

// database is a cache.Upstream over a database.
type database struct{ *teststorage.TestStorage }

func (d database) Fetch(ctx context.Context, mint, maxt int64, ms []*labels.Matcher, _ selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	q, err := d.ChunkQuerier(mint, maxt)
	if err != nil {
		return nil, nil, err
	}
	defer q.Close()
	return selection.FromChunkSeriesSet(ctx, q.Select(ctx, true, &storage.SelectHints{Start: mint, End: maxt, DisableTrimming: true}, ms...), 0)
}

// TestAgainstTSDB compares answers with those of Prometheus's handler over Prometheus's
// own database, which cuts chunks: straight from that database, and from a cache.
func TestAgainstTSDB(t *testing.T) {
	r := seeded(t)
	for _, enc := range []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2} {
		db := newTSDB(t, r, enc)
		theirs := reference(db, labels.EmptyLabels())
		cached := cache.New(database{db}, cache.Options{HostBytes: 64 << 20})
		handlers := map[string]http.Handler{"database": newHandler(t, db), "cache": newHandler(t, selection.Storage{Source: cached})}
		series := 0
		for range 12 {
			a, b := r.Int64N(8*hour), r.Int64N(8*hour)
			q := query(min(a, b), max(a, b))
			if r.IntN(2) == 0 {
				// A selector of a query whose other selectors need more.
				q.Hints = &prompb.ReadHints{StartMs: q.StartTimestampMs + (q.EndTimestampMs-q.StartTimestampMs)/4, EndMs: q.EndTimestampMs}
			}
			series += requireAsDatabase(t, theirs, q, handlers, q)
		}
		require.Greater(t, series, 12*12)

		for name, hints := range lyingHints {
			t.Log(name)
			asked, meant, ours := query(hour, 3*hour), query(hour, 3*hour), handlers
			switch asked.Hints = &hints; {
			case hints.StartMs == 0 && hints.EndMs == 0: // the query's times
				ours = map[string]http.Handler{"cache": handlers["cache"]}
			case hints.StartMs < hour || hints.EndMs > 3*hour:
				// A database sends what the blocks have of it that the query's times meet.
				meant, ours = query(hints.StartMs, hints.EndMs), map[string]http.Handler{"cache": handlers["cache"]}
			default:
				meant = asked
			}
			requireAsDatabase(t, theirs, meant, ours, asked)
		}

		// Who looks at labels alone gets no samples.
		q := query(0, 8*hour)
		q.Hints = &prompb.ReadHints{EndMs: 8 * hour, Func: "series"}
		req := &prompb.ReadRequest{Queries: []*prompb.Query{q}}
		want := timeseries(t, ask(t, theirs, req).Body)
		require.Len(t, want, 12)
		for _, h := range handlers {
			require.Equal(t, want, timeseries(t, ask(t, h, req).Body))
		}
		require.NoError(t, cached.Close())
	}
}

// lyingHints are hints to a query from one to three hours that no engine sends.
var lyingHints = map[string]prompb.ReadHints{
	"no step":                   {StartMs: hour, EndMs: 3 * hour, Func: "rate", RangeMs: 60_000},
	"a negative step":           {StartMs: hour, EndMs: 3 * hour, StepMs: -1, Func: "rate", RangeMs: 60_000},
	"a huge step":               {StartMs: hour, EndMs: 3 * hour, StepMs: math.MaxInt64, Func: "rate", RangeMs: 60_000},
	"an unknown function":       {StartMs: hour, EndMs: 3 * hour, StepMs: 1000, Func: "rm -rf"},
	"a range beyond the times":  {StartMs: hour, EndMs: 3 * hour, StepMs: 1000, Func: "rate", RangeMs: math.MaxInt64},
	"a negative range":          {StartMs: hour, EndMs: 3 * hour, StepMs: 1000, Func: "rate", RangeMs: math.MinInt64},
	"the start after the end":   {StartMs: 3 * hour, EndMs: hour, StepMs: 1000},
	"no times":                  {StepMs: 1000, Func: "sum", By: true, Grouping: []string{"", "\xff", "i"}},
	"other times":               {StartMs: 5 * hour, EndMs: 6 * hour, StepMs: 1000},
	"more than the query":       {StartMs: 0, EndMs: 5 * hour},
	"all times, to the last ms": {StartMs: math.MinInt64, EndMs: math.MaxInt64, StepMs: 1},
	"before all times":          {StartMs: math.MinInt64, EndMs: math.MinInt64 + 1, StepMs: 1},
	"after all times":           {StartMs: math.MaxInt64 - 1, EndMs: math.MaxInt64, StepMs: 1},
}

// requireAsDatabase compares the answers of handlers over a database to asked with that of
// Prometheus's to meant, in both forms, and returns how many series there are.
func requireAsDatabase(t *testing.T, theirs http.Handler, meant *prompb.Query, handlers map[string]http.Handler, asked *prompb.Query) (series int) {
	t.Helper()
	in := [2]int64{math.MinInt64, math.MaxInt64} // what comes beyond the range shows
	for _, types := range [][]prompb.ReadRequest_ResponseType{streamed, sampled} {
		req := &prompb.ReadRequest{Queries: []*prompb.Query{meant}, AcceptedResponseTypes: types}
		for name, h := range handlers {
			var want, got [][]received
			w := ask(t, h, &prompb.ReadRequest{Queries: []*prompb.Query{asked}, AcceptedResponseTypes: types}, asking("as-is"))
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			if len(types) > 1 {
				want, got = chunkAnswer(t, ask(t, theirs, req).Body, [][2]int64{in}), chunkAnswer(t, w.Body, [][2]int64{in})
			} else {
				want, got = sampleAnswer(t, ask(t, theirs, req).Body, 1), sampleAnswer(t, w.Body, 1)
			}
			for _, answer := range [][][]received{want, got} {
				for _, one := range answer[0] {
					for k := range one.samples {
						s := &one.samples[k]
						if s.hint > 0 && (name == "cache" || len(types) == 1) {
							// A cache's chunks end with tiles, and where Prometheus goes
							// on in another block, its samples have no hint.
							s.hint = 1
						}
						if s.bits == 1<<63 && len(types) == 1 {
							s.bits = 0
						}
					}
				}
			}
			series += len(got[0])
			require.Equal(t, want, got, "%s, %+v", name, asked)
		}
	}
	return series
}

// timeseries returns the series of an answer of samples to one query.
func timeseries(t *testing.T, body *bytes.Buffer) []*prompb.TimeSeries {
	t.Helper()
	data, err := snappy.Decode(nil, body.Bytes())
	require.NoError(t, err)
	var resp prompb.ReadResponse
	require.NoError(t, resp.Unmarshal(data))
	return resp.Results[0].Timeseries
}

// Samples keep the sign of 0, which Prometheus's do not.
func TestMinusZero(t *testing.T) {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	want := []float64{0, math.Copysign(0, -1), 1}
	require.NoError(t, b.Floats([]int64{0, 1, 2}, want))
	sel, err := b.Finish()
	require.NoError(t, err)
	got := timeseries(t, ask(t, newHandler(t, &inMemory{sel: sel}), &prompb.ReadRequest{Queries: []*prompb.Query{query(0, 2)}}).Body)
	require.Len(t, got[0].Samples, 3)
	for i, s := range got[0].Samples {
		require.Equal(t, int64(i), s.Timestamp)
		require.Equal(t, math.Float64bits(want[i]), math.Float64bits(s.Value))
	}
}

// A reducing handler sends what its function returns, in both forms, with external labels, and
// releases it afterwards. The handler that it was made from sends all.
func TestReducing(t *testing.T) {
	m := &inMemory{sel: holding(t, map[string][]int64{`{__name__="m", a="1"}`: {1, 2, 3}, `{__name__="m", a="2"}`: {2}})}
	plain := newHandler(t, m, func(o *Options) {
		o.ExternalLabels = func() labels.Labels { return labels.FromStrings("cluster", "eu") }
	})
	sum := holding(t, map[string][]int64{`{job="x"}`: {2, 9}})
	released := 0
	h := plain.Reducing(func(_ context.Context, q Query, sel *selection.Selection) (*selection.Selection, func(), error) {
		require.Equal(t, &storage.SelectHints{Start: 1, End: 3, Func: "sum", Grouping: []string{"job"}, By: true}, q.Hints)
		require.Equal(t, [2]int64{1, 3}, [2]int64{q.MinT, q.MaxT})
		require.Len(t, q.Matchers, 2)
		require.Empty(t, q.Matchers[1].Value, "the value of an external label is not stored")
		require.Equal(t, "eu", q.External.Get("cluster"))
		require.Equal(t, 2, sel.NumSeries())
		return sum, func() { require.Positive(t, m.open.Load()); released++ }, nil
	})
	q := query(0, 10)
	q.Matchers = append(q.Matchers, matcher(prompb.LabelMatcher_EQ, "cluster", "eu"))
	q.Hints = &prompb.ReadHints{StartMs: 1, EndMs: 3, Func: "sum", Grouping: []string{"job"}, By: true}
	chunks := &prompb.ReadRequest{Queries: []*prompb.Query{q}, AcceptedResponseTypes: streamed}
	samples := &prompb.ReadRequest{Queries: chunks.Queries, AcceptedResponseTypes: sampled}

	got := chunkAnswer(t, ask(t, h, chunks).Body, [][2]int64{{0, 10}})
	require.Equal(t, got, sampleAnswer(t, ask(t, h, samples).Body, 1))
	order, times := timesOf(got[0])
	require.Equal(t, []string{`{cluster="eu", job="x"}`}, order)
	require.Equal(t, []int64{2}, times[order[0]], "what is out of range is not sent")
	require.Equal(t, 2, released)
	require.Len(t, chunkAnswer(t, ask(t, plain, chunks).Body, [][2]int64{{0, 10}})[0], 2)

	w := ask(t, plain.Reducing(func(context.Context, Query, *selection.Selection) (*selection.Selection, func(), error) {
		return nil, nil, errors.New("not today")
	}), chunks)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, "not today\n", w.Body.String())
	require.Zero(t, m.open.Load())
}
