package serve

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// randomRequest returns a request of some queries, and the range of each.
func randomRequest(r *rand.Rand) (*prompb.ReadRequest, [][2]int64) {
	req, ranges := &prompb.ReadRequest{}, [][2]int64{}
	for range 1 + r.IntN(3) {
		a, b := r.Int64N(latest), r.Int64N(latest)
		q := query(min(a, b), max(a, b))
		switch r.IntN(6) {
		case 0:
			q.StartTimestampMs, q.EndTimestampMs = -latest, latest
		case 1:
			q.EndTimestampMs = q.StartTimestampMs
		}
		extra := []*prompb.LabelMatcher{
			matcher(prompb.LabelMatcher_RE, "i", "00.|01."), matcher(prompb.LabelMatcher_EQ, "zone", "1"), matcher(prompb.LabelMatcher_EQ, "zone", ""),
			matcher(prompb.LabelMatcher_NEQ, "zone", "0"), matcher(prompb.LabelMatcher_NRE, "i", ".*[3-6]"), matcher(prompb.LabelMatcher_EQ, "region", "eu"),
		}
		if k := r.IntN(2 * len(extra)); k < len(extra) {
			q.Matchers = append(q.Matchers, extra[k])
		}
		from, to := q.StartTimestampMs, q.EndTimestampMs
		if r.IntN(3) == 0 && to > from {
			from += r.Int64N(to - from)
			to = from + r.Int64N(to-from+1)
			q.Hints = &prompb.ReadHints{StartMs: from, EndMs: to, StepMs: 10, Func: "rate", RangeMs: 5, By: true, Grouping: []string{"i"}}
			if from == 0 && to == 0 {
				q.Hints.EndMs, to = 1, 1
			}
		}
		req.Queries, ranges = append(req.Queries, q), append(ranges, [2]int64{from, to})
	}
	return req, ranges
}

// TestAgainstPrometheus compares answers with those of Prometheus's handler over the same
// chunks, of which a reader of those takes what is in range.
func TestAgainstPrometheus(t *testing.T) {
	r := seeded(t)
	for range 30 {
		m := &inMemory{sel: random(t, r, r.IntN(25))}
		external := []labels.Labels{labels.EmptyLabels(), labels.FromStrings("region", "eu"), labels.FromStrings("a", "1", "i", "x", "zone", "0")}[r.IntN(3)]
		h := newHandler(t, m, func(o *Options) {
			o.ExternalLabels = func() labels.Labels { return external }
			o.FrameBytes = 1 + r.IntN(2000)
		})
		theirs := reference(m, external)
		for range 8 {
			req, ranges := randomRequest(r)
			chunks := []string{"xor", "as-is"}[r.IntN(2)]

			req.AcceptedResponseTypes = streamed
			want := chunkAnswer(t, ask(t, theirs, req).Body, ranges)
			w := ask(t, h, req, asking(chunks))
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			requireCut(t, m.sel, external.IsEmpty(), w.Body.Bytes(), ranges)
			got := chunkAnswer(t, w.Body, ranges)
			if chunks == "xor" {
				withoutST(want)
			}
			requireSame(t, m.sel, external, ranges, want, got, true)

			req.AcceptedResponseTypes = sampled
			want = sampleAnswer(t, ask(t, theirs, req).Body, len(ranges))
			w = ask(t, h, req)
			require.Equal(t, "snappy", w.Header().Get("Content-Encoding"))
			got = sampleAnswer(t, w.Body, len(ranges))
			requireSame(t, m.sel, external, ranges, want, got, false)
		}
		require.Zero(t, m.open.Load())
	}
}

// withoutST forgets start timestamps.
func withoutST(answer [][]received) {
	for _, rs := range answer {
		for _, one := range rs {
			for i := range one.samples {
				one.samples[i].st = 0
			}
		}
	}
}

// requireSame compares answers. What Prometheus sends with external labels is in the order
// of what is stored, and a series that becomes another with them comes twice. The first
// histogram of a chunk that is cut loses its hint.
func requireSame(t *testing.T, sel *selection.Selection, external labels.Labels, ranges [][2]int64, want, got [][]received, cut bool) {
	t.Helper()
	for i := range want {
		for _, rs := range [][]received{want[i], got[i]} {
			for _, one := range rs {
				for k := range one.samples {
					s := &one.samples[k]
					if cut && s.hint > 0 && isCut(sel, s.t, ranges[i]) {
						s.hint = -1
					}
					if s.bits == 1<<63 && !cut {
						s.bits = 0 // Prometheus's samples do not tell -0 from 0
					}
				}
			}
		}
		require.True(t, slices.IsSortedFunc(got[i], byLabels))
		if !external.IsEmpty() {
			slices.SortStableFunc(want[i], byLabels)
		}
		if len(want[i]) == 0 {
			require.Empty(t, got[i])
			continue
		}
		require.Equal(t, want[i], got[i], "query %d, range %v", i, ranges[i])
	}
}

func byLabels(a, b received) int { return labels.Compare(parsed(a.labels), parsed(b.labels)) }

func parsed(text string) labels.Labels {
	l, err := promqlParser.ParseMetric(text)
	if err != nil {
		panic(err)
	}
	return l
}

// isCut reports whether a chunk that a sample at ts may be of reaches beyond the range.
func isCut(sel *selection.Selection, ts int64, in [2]int64) bool {
	for i := range sel.NumSeries() {
		for _, c := range sel.Chunks(i) {
			if c.MinT <= ts && c.MaxT >= ts && (c.MinT < in[0] || c.MaxT > in[1]) {
				return true
			}
		}
	}
	return false
}

// requireCut checks that a streamed answer has nothing outside of the ranges, that chunks
// are what they say, in order, and that those inside are as they are stored.
func requireCut(t *testing.T, sel *selection.Selection, plain bool, body []byte, ranges [][2]int64) {
	t.Helper()
	stored := map[string]map[int64][]byte{} // by labels and beginning
	for i, l := range sel.Series() {
		stored[l.String()] = map[int64][]byte{}
		for _, c := range sel.Chunks(i) {
			stored[l.String()][c.MinT] = sel.Bytes(c)
		}
	}
	last := map[string]int64{}
	for _, f := range frames(t, bytes.NewReader(body)) {
		s, b := f.ChunkedSeries[0], labels.NewScratchBuilder(0)
		name := s.ToLabels(&b, nil).String()
		key := fmt.Sprint(f.QueryIndex, name)
		in := ranges[f.QueryIndex]
		require.NotEmpty(t, s.Chunks)
		for _, c := range s.Chunks {
			enc := chunkenc.Encoding(c.Type)
			chunk, err := chunkenc.FromData(enc, c.Data)
			require.NoError(t, err)
			samples := drain(t, chunk.Iterator(nil), -1<<62, 1<<62)
			require.Equal(t, c.MinTimeMs, samples[0].t)
			require.Equal(t, c.MaxTimeMs, samples[len(samples)-1].t)
			require.GreaterOrEqual(t, c.MinTimeMs, in[0])
			require.LessOrEqual(t, c.MaxTimeMs, in[1])
			if end, ok := last[key]; ok {
				require.Greater(t, c.MinTimeMs, end)
			}
			last[key] = c.MaxTimeMs
			if whole, ok := stored[name][c.MinTimeMs]; plain && ok {
				original := originalOf(sel, name, c.MinTimeMs)
				if original.MaxT == c.MaxTimeMs && original.Enc == enc {
					require.Equal(t, whole, c.Data)
				}
			}
		}
	}
}

func originalOf(sel *selection.Selection, name string, minT int64) selection.Chunk {
	for i, l := range sel.Series() {
		for _, c := range sel.Chunks(i) {
			if l.String() == name && c.MinT == minT {
				return c
			}
		}
	}
	return selection.Chunk{}
}

// Where nothing is to be cut or encoded again, answers are Prometheus's byte by byte.
func TestSameBytesAsPrometheus(t *testing.T) {
	r := seeded(t)
	for range 30 {
		m := &inMemory{sel: random(t, r, r.IntN(40))}
		size := []int{1, 500, 3000, DefaultFrameBytes}[r.IntN(4)]
		h := newHandler(t, m, func(o *Options) { o.FrameBytes = size })
		req := &prompb.ReadRequest{AcceptedResponseTypes: streamed, Queries: []*prompb.Query{query(-latest, 10*latest), query(0, 10*latest)}}
		want, got := ask(t, referenceWithFrames(m, size), req), ask(t, h, req, asking("as-is"))
		require.Equal(t, want.Header(), got.Header())
		require.True(t, bytes.Equal(want.Body.Bytes(), got.Body.Bytes()), "%d bytes instead of %d", got.Body.Len(), want.Body.Len())
	}
}

// All counter resets that chunks tell of are told of in the older encodings, too.
func TestReencodedChunksKeepResets(t *testing.T) {
	r := seeded(t)
	for range 20 {
		m := &inMemory{sel: random(t, r, 10, chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST, chunkenc.EncXOR2)}
		h := newHandler(t, m)
		req := &prompb.ReadRequest{AcceptedResponseTypes: streamed, Queries: []*prompb.Query{query(-latest, 10*latest)}}
		ranges := [][2]int64{{-latest, 10 * latest}}
		stored, plain := ask(t, h, req, asking("as-is")).Body.Bytes(), ask(t, h, req, asking("xor")).Body.Bytes()
		require.Equal(t, headers(t, stored), headers(t, plain))
		for _, f := range frames(t, bytes.NewReader(plain)) {
			for _, c := range f.ChunkedSeries[0].Chunks {
				require.LessOrEqual(t, c.Type, prompb.Chunk_FLOAT_HISTOGRAM)
			}
		}
		want := chunkAnswer(t, bytes.NewReader(stored), ranges)
		withoutST(want)
		require.Equal(t, want, chunkAnswer(t, bytes.NewReader(plain), ranges), "with hints")
	}
}

// headers returns what each chunk of a streamed answer says of counter resets.
func headers(t *testing.T, body []byte) (out []chunkenc.CounterResetHeader) {
	t.Helper()
	for _, f := range frames(t, bytes.NewReader(body)) {
		for _, c := range f.ChunkedSeries[0].Chunks {
			chunk, err := chunkenc.FromData(chunkenc.Encoding(c.Type), c.Data)
			require.NoError(t, err)
			if h, ok := chunk.(interface {
				GetCounterResetHeader() chunkenc.CounterResetHeader
			}); ok {
				out = append(out, h.GetCounterResetHeader())
			}
		}
	}
	return out
}

// A Sample has the bytes that Prometheus's encoder gives it, whatever its time.
func TestAppendSample(t *testing.T) {
	r := seeded(t)
	for range 100_000 {
		s := prompb.Sample{Timestamp: int64(r.Uint64() >> r.IntN(65)), Value: someFloat(r, r.IntN(9) == 0)}
		if math.Float64bits(s.Value) == 1<<63 {
			continue // Prometheus writes -0 as 0
		}
		want, err := (&prompb.TimeSeries{Samples: []prompb.Sample{s}}).Marshal()
		require.NoError(t, err)
		require.Equal(t, want, appendSample(nil, s.Timestamp, s.Value), "%v", s)
	}
}

// A result of many groups is in the order of the series, and what is beyond the limit is refused
// wherever it is found.
func TestManyGroups(t *testing.T) {
	m := &inMemory{sel: random(t, seeded(t), 800)}
	queries := []*prompb.Query{query(0, latest), query(500, 7000)}
	chunks := &prompb.ReadRequest{Queries: queries, AcceptedResponseTypes: streamed}
	want := chunkAnswer(t, ask(t, newHandler(t, m), chunks, asking("xor")).Body, [][2]int64{{0, latest}, {500, 7000}})
	req := &prompb.ReadRequest{Queries: queries, AcceptedResponseTypes: sampled}
	for q, got := range sampleAnswer(t, ask(t, newHandler(t, m), req).Body, 2) {
		require.Equal(t, len(want[q]), len(got))
		for i := range got {
			require.Equal(t, want[q][i].labels, got[i].labels)
			same := func(a, b sample) bool { return a.t == b.t && a.bits == b.bits }
			require.True(t, slices.EqualFunc(want[q][i].samples, got[i].samples, same), got[i].labels)
		}
	}

	samples := 0
	for _, one := range want[0] {
		samples += len(one.samples)
	}
	for limit, code := range map[int]int{samples: 200, samples - 1: 400} {
		h := newHandler(t, m, func(o *Options) { o.SampleLimit = limit })
		require.Equal(t, code, ask(t, h, req).Code, limit)
	}
}

func TestDialect(t *testing.T) {
	plain, floats := dialect{}, dialect{xor2: true}
	for _, c := range []struct {
		url       string
		userAgent string
		want      dialect
	}{
		{userAgent: "Prometheus/3.15.0", want: everything},
		{userAgent: "Prometheus/3.14.0", want: everything},
		{userAgent: "Prometheus/4.0.0-rc.1 (linux)", want: everything},
		{userAgent: "Prometheus/3.13.2", want: floats},
		{userAgent: "Prometheus/3.11.0", want: floats},
		{userAgent: "Prometheus/3.11.0-rc.0", want: plain},
		{userAgent: "Prometheus/3.12.0-rc.0", want: floats},
		{userAgent: "Prometheus/3.15.1+debian", want: everything},
		{userAgent: "Prometheus/3.10.0", want: plain},
		{userAgent: "Prometheus/2.53.1", want: plain},
		{userAgent: "Prometheus/", want: plain},
		{userAgent: "Prometheus/3", want: plain},
		{userAgent: "Prometheus/x.y.z", want: plain},
		{userAgent: "promwarp/0.1.0", want: everything},
		{userAgent: "Thanos/0.39.2", want: plain},
		{userAgent: "vmctl", want: plain},
		{userAgent: "Go-http-client/1.1", want: plain},
		{userAgent: "", want: plain},
		{url: "?chunks=as-is", userAgent: "Thanos/0.39.2", want: everything},
		{url: "?chunks=xor", userAgent: "Prometheus/3.15.0", want: plain},
		{url: "?chunks=auto", userAgent: "Prometheus/3.15.0", want: everything},
	} {
		r := httptest.NewRequest("POST", "/api/v1/read"+c.url, nil)
		r.Header.Set("User-Agent", c.userAgent)
		got, err := dialectOf(r)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%+v", c)
	}
	_, err := dialectOf(httptest.NewRequest("POST", "/api/v1/read?chunks=xor3", nil))
	require.EqualError(t, err, `parameter chunks: unknown chunk encodings "xor3"; there are auto, xor and as-is`)
}

// What each reader gets of chunks in all encodings.
func TestEncodingsByReader(t *testing.T) {
	r := seeded(t)
	h := newHandler(t, &inMemory{sel: random(t, r, 60)})
	req := &prompb.ReadRequest{AcceptedResponseTypes: streamed, Queries: []*prompb.Query{query(0, latest)}}
	plain := []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncHistogram, chunkenc.EncFloatHistogram}
	for userAgent, want := range map[string][]chunkenc.Encoding{
		"Prometheus/3.15.0": encodings,
		"promwarp/1.0.0":    encodings,
		"Prometheus/3.12.0": append([]chunkenc.Encoding{chunkenc.EncXOR2}, plain...),
		"Prometheus/3.5.0":  plain,
		"Thanos/0.39.2":     plain,
		"curl/8.0":          plain,
	} {
		got := map[chunkenc.Encoding]bool{}
		w := ask(t, h, req, func(r *http.Request) { r.Header.Set("User-Agent", userAgent) })
		for _, f := range frames(t, w.Body) {
			for _, c := range f.ChunkedSeries[0].Chunks {
				got[chunkenc.Encoding(c.Type)] = true
			}
		}
		for _, e := range encodings {
			require.Equal(t, slices.Contains(want, e), got[e], "%s: %s", userAgent, e)
		}
	}
}

// holding makes a selection of series with a chunk of the given samples each; the value
// of each is its time.
func holding(t testing.TB, all map[string][]int64) *selection.Selection {
	t.Helper()
	b := selection.NewBuilder(0)
	for l, ts := range all {
		b.Series(parsed(l))
		data := selectiontest.Encode(t, chunkenc.EncXOR, ts, func(at int64) float64 { return float64(at) })
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[len(ts)-1], data))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// timesOf returns the times of an answer's samples by series, and the series' order.
func timesOf(rs []received) (order []string, times map[string][]int64) {
	times = map[string][]int64{}
	for _, one := range rs {
		order = append(order, one.labels)
		for _, s := range one.samples {
			times[one.labels] = append(times[one.labels], s.t)
		}
	}
	return order, times
}

func TestExternalLabels(t *testing.T) {
	eq, ne := prompb.LabelMatcher_EQ, prompb.LabelMatcher_NEQ
	for name, c := range map[string]struct {
		external labels.Labels
		stored   map[string][]int64
		matchers []*prompb.LabelMatcher
		order    []string
		times    map[string][]int64
	}{
		"none": {
			stored: map[string][]int64{`{a="1"}`: {1, 2}, `{a="1", b="1"}`: {3}},
			order:  []string{`{a="1"}`, `{a="1", b="1"}`},
		},
		"put back": {
			external: labels.FromStrings("z", "9"),
			stored:   map[string][]int64{`{a="1"}`: {1, 2}, `{a="2"}`: {3}},
			order:    []string{`{a="1", z="9"}`, `{a="2", z="9"}`},
		},
		"which changes the order": {
			external: labels.FromStrings("c", "9"),
			stored:   map[string][]int64{`{a="1"}`: {1, 2}, `{a="1", b="1"}`: {3}},
			order:    []string{`{a="1", b="1", c="9"}`, `{a="1", c="9"}`},
		},
		"a series' own value stays": {
			external: labels.FromStrings("c", "9", "d", "8"),
			stored:   map[string][]int64{`{a="1", c="own"}`: {1, 2}, `{a="1"}`: {3}},
			order:    []string{`{a="1", c="9", d="8"}`, `{a="1", c="own", d="8"}`},
		},
		"two become one": {
			external: labels.FromStrings("c", "9"),
			stored:   map[string][]int64{`{a="1", c="9"}`: {1, 3, 5}, `{a="1"}`: {2, 3, 6}, `{a="0"}`: {1}},
			order:    []string{`{a="0", c="9"}`, `{a="1", c="9"}`},
			times:    map[string][]int64{`{a="0", c="9"}`: {1}, `{a="1", c="9"}`: {1, 2, 3, 5, 6}},
		},
		"asked for by their value": {
			external: labels.FromStrings("c", "9"),
			stored:   map[string][]int64{`{a="1", c="9"}`: {1, 3, 5}, `{a="1"}`: {2, 3, 6}},
			matchers: []*prompb.LabelMatcher{matcher(eq, "c", "9")},
			order:    []string{`{a="1", c="9"}`},
			times:    map[string][]int64{`{a="1", c="9"}`: {2, 3, 6}},
		},
		"asked for by another value": {
			external: labels.FromStrings("c", "9"),
			stored:   map[string][]int64{`{a="1", c="own"}`: {1}, `{a="1"}`: {2}},
			matchers: []*prompb.LabelMatcher{matcher(eq, "c", "own")},
			order:    []string{`{a="1", c="own"}`},
		},
		"asked for by what it is not": {
			external: labels.FromStrings("c", "9"),
			stored:   map[string][]int64{`{a="1", c="own"}`: {1}, `{a="1"}`: {2}},
			matchers: []*prompb.LabelMatcher{matcher(ne, "c", "9")},
			order:    []string{`{a="1", c="9"}`, `{a="1", c="own"}`},
		},
		"empty ones do not count": {
			external: labels.New(labels.Label{Name: "c", Value: ""}),
			stored:   map[string][]int64{`{a="1"}`: {1}},
			order:    []string{`{a="1"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &inMemory{sel: holding(t, c.stored)}
			h := newHandler(t, m, func(o *Options) { o.ExternalLabels = func() labels.Labels { return c.external } })
			q := &prompb.Query{EndTimestampMs: 10, Matchers: append([]*prompb.LabelMatcher{matcher(ne, "a", "")}, c.matchers...)}
			for _, types := range [][]prompb.ReadRequest_ResponseType{streamed, sampled} {
				req := &prompb.ReadRequest{Queries: []*prompb.Query{q}, AcceptedResponseTypes: types}
				w := ask(t, h, req)
				var got, theirs [][]received
				if len(types) > 1 {
					got = chunkAnswer(t, w.Body, [][2]int64{{0, 10}})
					theirs = chunkAnswer(t, ask(t, reference(m, c.external), req).Body, [][2]int64{{0, 10}})
				} else {
					got = sampleAnswer(t, w.Body, 1)
					theirs = sampleAnswer(t, ask(t, reference(m, c.external), req).Body, 1)
				}
				order, times := timesOf(got[0])
				require.Equal(t, c.order, order)
				if c.times != nil {
					require.Equal(t, c.times, times)
				}
				if name != "two become one" && name != "empty ones do not count" {
					require.ElementsMatch(t, theirs[0], got[0], "Prometheus's, in another order")
				}
			}
		})
	}
}
