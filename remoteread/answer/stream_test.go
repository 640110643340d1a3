package answer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/remoteread/answer/answertest"
	"github.com/promwarp/promwarp/selection"
)

// The stream carries prompb's numbers of encodings, selections chunkenc's.
func TestEncodingNumbers(t *testing.T) {
	for name, n := range prompb.Chunk_Encoding_value {
		e := chunkenc.Encoding(n)
		require.Equal(t, name != "UNKNOWN", chunkenc.IsValidEncoding(e), name)
		if name == "UNKNOWN" {
			continue
		}
		c, err := chunkenc.NewEmptyChunk(e)
		require.NoError(t, err)
		require.Equal(t, e, c.Encoding())
	}
	for n, e := range map[prompb.Chunk_Encoding]chunkenc.Encoding{
		prompb.Chunk_XOR: chunkenc.EncXOR, prompb.Chunk_XOR2: chunkenc.EncXOR2,
		prompb.Chunk_HISTOGRAM: chunkenc.EncHistogram, prompb.Chunk_FLOAT_HISTOGRAM: chunkenc.EncFloatHistogram,
		prompb.Chunk_HISTOGRAM_ST: chunkenc.EncHistogramST, prompb.Chunk_FLOAT_HISTOGRAM_ST: chunkenc.EncFloatHistogramST,
	} {
		require.EqualValues(t, n, e)
	}
	require.False(t, chunkenc.IsValidEncoding(chunkenc.Encoding(len(prompb.Chunk_Encoding_value))), "an encoding that prompb does not have")
}

func seeds() [][]byte {
	two := &prompb.ChunkedReadResponse{QueryIndex: 3, ChunkedSeries: []*prompb.ChunkedSeries{
		wireSeries(1_700_000_000_000, 20, "__name__", "up", "job", "j"), wireSeries(-5, 3, "a", ""), {},
	}}
	return [][]byte{
		nil, marshal(two),
		{0x0a, 0},
		{0x0a, 8, 0x12, 2, 0x18, 1, 0x0a, 2, 0x0a, 0}, // a chunk before a label
		{0x1a, 1, 0, 0x23, 0x24},                      // unknown fields, one a group
		{0x0a, 6, 0x1a, 1, 0, 0x0a, 1, 0x50},
		{0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		marshal(&prompb.ChunkedReadResponse{ChunkedSeries: []*prompb.ChunkedSeries{{
			Labels: []prompb.Label{{Name: "a", Value: "b"}},
			Chunks: []prompb.Chunk{{Type: prompb.Chunk_HISTOGRAM, MaxTimeMs: math.MaxInt64, Data: []byte{0, 1}}},
		}}}),
	}
}

// finished is what a frame of the first query makes.
func (d *streamBuilder) finished(frame []byte) (*selection.Selection, error) {
	series, _, err := parse(frame, nil)
	if err == nil {
		err = d.frame(series, 0)
	}
	if err != nil {
		return nil, err
	}
	return d.b.Finish()
}

// FuzzFrame checks that nothing in a frame makes the client panic, and that it makes the same of it
// as of what prompb reads and writes again.
func FuzzFrame(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		canonical := func(m *prompb.ChunkedReadResponse) []byte {
			m.XXX_unrecognized = nil
			for _, s := range m.ChunkedSeries {
				s.XXX_unrecognized = nil
				for i := range s.Labels {
					s.Labels[i].XXX_unrecognized = nil
				}
				for i := range s.Chunks {
					s.Chunks[i].XXX_unrecognized = nil
				}
			}
			return marshal(m)
		}
		var want prompb.ChunkedReadResponse
		wantErr := want.Unmarshal(data)
		d := newStreamBuilder(1 << 20)
		s, err := d.finished(data)
		if err != nil {
			return
		}
		require.NoError(t, wantErr)
		prompbs, err := newStreamBuilder(1 << 20).finished(canonical(&want))
		require.NoError(t, err)
		require.Equal(t, chunksOf(prompbs), chunksOf(s))
		again := newStreamBuilder(1 << 20)
		again.expected.series = s.Series()
		known, err := again.finished(data)
		require.NoError(t, err)
		require.Equal(t, chunksOf(s), chunksOf(known))
		require.Equal(t, d.series, again.series)
		require.Equal(t, d.labelBytes, again.labelBytes)

		// Decoding may fail, but not panic.
		for set := s.SeriesSet(math.MinInt64, math.MaxInt64, nil); set.Next(); {
			it := set.At().Iterator(nil)
			for it.Next() != chunkenc.ValNone {
			}
		}
	})
}

// Of the series that are expected those are found that come, whatever else does, in
// frames of whatever shape.
func TestStreamOfExpectedSeries(t *testing.T) {
	long := strings.Repeat("x", 200)
	series := func(i int) labels.Labels {
		l := []string{"__name__", "m", "i", fmt.Sprint(i)}
		if i%2 == 0 {
			l = append(l, "long", long)
		}
		return labels.FromStrings(l...)
	}
	for _, test := range []struct {
		name            string
		expected, comes []int
	}{
		{"the same", []int{1, 2, 3}, []int{1, 2, 3}},
		{"fewer", []int{1, 2, 3, 4}, []int{2, 4}},
		{"many fewer", []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, []int{1, 8, 9}},
		{"more", []int{2, 4}, []int{1, 2, 3, 4, 5}},
		{"others", []int{1, 3}, []int{2, 4}},
		{"out of order", []int{1, 2, 3}, []int{3, 1, 2}},
		{"none expected", nil, []int{1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var expected []labels.Labels
			for _, i := range test.expected {
				expected = append(expected, series(i))
			}
			d := newStreamBuilder(1 << 20)
			d.expected.series = expected
			for n, i := range test.comes {
				chunk := wireSeries(0, 5).Chunks
				ls := prompb.FromLabels(series(i), nil)
				whole := marshal(&prompb.ChunkedSeries{Labels: ls, Chunks: chunk})
				for _, b := range [][]byte{whole, whole} { // which are one series
					require.NoError(t, d.addSeries(b))
				}
				require.True(t, labels.Equal(series(i), d.labels), d.labels)
				require.EqualValues(t, n+1, d.series)
				if at := slices.Index(test.expected, i); at >= 0 {
					require.True(t, sameString(expected[at], d.labels), "made anew")
				}
			}
			require.EqualValues(t, 2*len(test.comes)*len(wireSeries(0, 5).Chunks[0].Data), d.b.Bytes())
		})
	}
}

// A label behind the chunks would make another series of one that was taken for known.
func TestLateLabel(t *testing.T) {
	known := marshal(wireSeries(0, 5, "a", "b"))
	late := append(bytes.Clone(known), marshal(&prompb.ChunkedSeries{Labels: []prompb.Label{{Name: "c", Value: "d"}}})...)
	for _, expected := range [][]labels.Labels{nil, {labels.FromStrings("a", "b")}} {
		d := newStreamBuilder(1 << 20)
		d.expected.series = expected
		require.NoError(t, d.addSeries(known))
		require.ErrorIs(t, d.addSeries(late), errLate)
	}
}

// stream is one answer as a Prometheus sends it: a frame a series, each of
// some chunks of 120 samples.
func stream(series, chunks int) (b []byte, samples int64) {
	var all []*prompb.ChunkedSeries
	for i := range series {
		s := &prompb.ChunkedSeries{Labels: []prompb.Label{
			{Name: "__name__", Value: "http_requests_total"}, {Name: "code", Value: "200"}, {Name: "handler", Value: "/api/v1/query"},
			{Name: "instance", Value: fmt.Sprintf("host-%05d:9090", i)}, {Name: "job", Value: "job-1"}, {Name: "method", Value: "GET"},
		}}
		v := 0.0
		for k := range chunks {
			c := chunkenc.NewXORChunk()
			app, _ := c.Appender()
			var t int64
			start := 1_700_000_000_000 + int64(k)*120*15_000
			for n := range 120 {
				v += float64((n*7 + i) % 13)
				t = start + int64(n)*15_000 + int64(n*i%3)
				app.Append(0, t, v)
			}
			s.Chunks = append(s.Chunks, prompb.Chunk{MinTimeMs: start, MaxTimeMs: t, Type: prompb.Chunk_XOR, Data: c.Bytes()})
			samples += 120
		}
		all = append(all, s)
	}
	return frames(all...), samples
}

// newStreamBuilder begins with all series of one query.
func newStreamBuilder(limit int64) *streamBuilder {
	return &streamBuilder{b: selection.NewBuilder(limit), finder: newFinder(&Part{Ctx: context.Background()}, false)}
}

func BenchmarkStream(b *testing.B) {
	for _, shape := range []struct{ series, chunks int }{{4000, 12}, {4000, 48}, {20000, 2}} {
		data, samples := stream(shape.series, shape.chunks)
		r := within(1 << 40)
		read := func(b *testing.B, e selection.Expectation) *selection.Selection {
			q := uncounted()
			q.Expected = e
			s, err := r.readOne(b.Context(), bytes.NewReader(data), true, q)
			if err != nil || s.NumSamples() != samples {
				b.Fatal(s, err)
			}
			return s
		}
		run := func(e selection.Expectation, name string) {
			b.Run(fmt.Sprintf("series=%d/chunks=%d%s", shape.series, shape.chunks, name), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					read(b, e)
				}
				b.ReportMetric(float64(samples)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msamples/s")
			})
		}
		run(selection.Expectation{}, "")
		run(selection.Expectation{Series: read(b, selection.Expectation{}).Series()}, "/expected")
		b.Run(fmt.Sprintf("series=%d/chunks=%d/prompb", shape.series, shape.chunks), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				r := remote.NewChunkedReader(bytes.NewReader(data), 1<<30, nil)
				var m prompb.ChunkedReadResponse
				for {
					m.Reset()
					if err := r.NextProto(&m); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// Series are found in whatever order they come, and without their hashes where they come in label order.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		var all, others []labels.Labels
		for i := range 1 + r.IntN(60) {
			all = append(all, labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i)))
			others = append(others, labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i), "z", "1"))
		}
		comes, ordered := r.Perm(len(all)), r.IntN(3) == 0
		if ordered {
			slices.Sort(comes)
		}
		x := index{series: all}
		for _, k := range comes {
			if r.IntN(5) == 0 {
				require.Equal(t, -1, x.find(others[r.IntN(len(others))]))
				x.numbers = nil
			}
			require.Equal(t, k, x.find(all[k]))
			require.True(t, x.numbers == nil || !ordered)
		}
	}
	require.Equal(t, -1, (&index{}).find(labels.EmptyLabels()))
}

func labelsOf(pairs ...string) (ls []label) {
	for i := 0; i < len(pairs); i += 2 {
		ls = append(ls, label{Name: []byte(pairs[i]), Value: []byte(pairs[i+1])})
	}
	return ls
}

func matchersOf(t testing.TB, text ...string) (ms []*labels.Matcher) {
	for i := 0; i < len(text); i += 3 {
		typ := map[string]labels.MatchType{"=": labels.MatchEqual, "!=": labels.MatchNotEqual, "=~": labels.MatchRegexp, "!~": labels.MatchNotRegexp}[text[i+1]]
		m, err := labels.NewMatcher(typ, text[i], text[i+2])
		require.NoError(t, err)
		ms = append(ms, m)
	}
	return ms
}

func TestSelectorChecks(t *testing.T) {
	a := labelsOf("__name__", "a", "job", "x")
	for _, c := range []struct {
		name   string
		ms     []*labels.Matcher
		added  bool
		series [][]label
		bad    int // the first series that is an error; -1 for none
	}{
		{"those asked for", matchersOf(t, "__name__", "=", "a", "job", "=~", "x|y"), false, [][]label{a, a, labelsOf("__name__", "a", "job", "y"), a}, -1},
		{"another name", matchersOf(t, "__name__", "=", "a"), false, [][]label{a, labelsOf("__name__", "b")}, 1},
		{"no name", matchersOf(t, "__name__", "=", "a"), false, [][]label{a, labelsOf("job", "x")}, 1},
		{"another label", matchersOf(t, "job", "=~", "x|y"), false, [][]label{a, labelsOf("__name__", "a", "i", "1", "job", "y"), labelsOf("__name__", "a", "job", "z")}, 2},
		{"labels elsewhere", matchersOf(t, "job", "=", "x"), false, [][]label{labelsOf("a", "1", "b", "2", "job", "x"), labelsOf("job", "x"), labelsOf("a", "1", "job", "y")}, 2},
		{"a label that must not be", matchersOf(t, "job", "=", ""), false, [][]label{labelsOf("__name__", "a"), labelsOf("job", ""), a}, 2},
		{"a value that is not to be", matchersOf(t, "job", "!=", "x"), false, [][]label{labelsOf("job", "y"), a}, 1},
		{"a long value", matchersOf(t, "job", "!=", "x"), false, [][]label{labelsOf("job", strings.Repeat("y", 300)), labelsOf("job", ""), a}, 2},
		{"added by the store", matchersOf(t, "job", "!=", "x"), true, [][]label{a, labelsOf("job", "y"), a}, -1},
		{"two values cannot be added", matchersOf(t, "job", "!~", "x|y"), true, [][]label{a, a, labelsOf("job", "y")}, 2},
		{"what one lacks is not added", matchersOf(t, "job", "!=", "x"), true, [][]label{a, labelsOf("__name__", "a")}, 1},
		{"what one lacked is not added", matchersOf(t, "job", "!=", "x"), true, [][]label{labelsOf("__name__", "a"), labelsOf("__name__", "b"), a}, 2},
		{"a name is not added", matchersOf(t, "__name__", "!=", "a"), true, [][]label{a}, 0},
		{"not what the store had to match", matchersOf(t, "job", "=~", "y"), true, [][]label{a}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSelector(c.ms, c.added)
			for i, ls := range c.series {
				err := s.check(ls)
				if i != c.bad {
					require.NoError(t, err, i)
					continue
				}
				require.ErrorContains(t, err, "series "+describe(ls)+" does not match {")
				break
			}
		})
	}
}

// A message is not longer for a selector and a series that are.
func TestLongSelector(t *testing.T) {
	var ms []*labels.Matcher
	for i := range 100 {
		ms = append(ms, labels.MustNewMatcher(labels.MatchNotEqual, fmt.Sprint("label", i), strings.Repeat("v", 1000)))
	}
	ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, "x", "y"))
	s := newSelector(ms, false)
	err := s.check(labelsOf("x", strings.Repeat("z", 1_000_000)))
	require.ErrorContains(t, err, "does not match")
	require.Less(t, len(err.Error()), 2000)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Those of wiretest that nearly every test uses.
var (
	marshal, frames, wireSeries = answertest.Marshal, answertest.Frames, answertest.Series
	floats                      = answertest.Floats
	chunksOf                    = answertest.Chunks
)

// sameString reports whether a and b are the same in memory, not only equal.
func sameString(a, b labels.Labels) bool {
	var x, y *byte
	_ = a.Validate(func(l labels.Label) error { x = unsafe.StringData(l.Name); return errNoSeries })
	_ = b.Validate(func(l labels.Label) error { y = unsafe.StringData(l.Name); return errNoSeries })
	return x == y
}

// within is a reader whose limits are a number of bytes.
func within(limit int64) *Reader { return &Reader{MaxFrame: limit, MaxAnswer: limit, MaxBytes: limit} }

// uncounted is a question whose answer is not counted.
func uncounted() *Part { return &Part{Count: func(int64, int64) error { return nil }} }

// readOne reads an answer to the one question p, asked in ctx.
func (a *Reader) readOne(ctx context.Context, r io.Reader, streamed bool, p *Part) (*selection.Selection, error) {
	p.Ctx = ctx
	_, err := a.Read(r, streamed, []*Part{p})
	return p.Sel, err
}
