package serve

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
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
			chunks := []Chunks{XOR, AsIs}[r.IntN(2)]

			req.AcceptedResponseTypes = streamed
			want := chunkAnswer(t, ask(t, theirs, req).Body, ranges)
			w := ask(t, h, req, asking(chunks))
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			requireCut(t, m.sel, external.IsEmpty(), w.Body.Bytes(), ranges)
			got := chunkAnswer(t, w.Body, ranges)
			if chunks == XOR {
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
		h := newHandler(t, m, func(o *Options) { o.FrameBytes, o.Chunks = size, AsIs })
		req := &prompb.ReadRequest{AcceptedResponseTypes: streamed, Queries: []*prompb.Query{query(-latest, 10*latest), query(0, 10*latest)}}
		want, got := ask(t, referenceWithFrames(m, size), req), ask(t, h, req)
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
		stored, plain := ask(t, h, req, asking(AsIs)).Body.Bytes(), ask(t, h, req, asking(XOR)).Body.Bytes()
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
