package answer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// byPrometheus reads a prompb.ReadResponse with Prometheus's own code.
func byPrometheus(data []byte) (*selection.Selection, error) {
	var m prompb.ReadResponse
	if err := m.Unmarshal(data); err != nil {
		return nil, err
	}
	if len(m.Results) != 1 {
		return nil, errors.New("not one result")
	}
	var all []storage.Series
	for _, ts := range m.Results[0].Timeseries {
		for _, l := range ts.Labels {
			if err := checkLabel(l.Name, l.Value); err != nil {
				return nil, err
			}
		}
		set := remote.FromQueryResult(false, &prompb.QueryResult{Timeseries: []*prompb.TimeSeries{ts}})
		if !set.Next() {
			return nil, set.Err()
		}
		all = append(all, set.At())
		if _, twice := set.At().Labels().HasDuplicateLabelNames(); twice {
			return nil, errors.New("a label twice")
		}
	}
	sel, _, err := selection.FromSeriesSet(context.Background(), &seriesList{all: all}, 1<<20)
	return sel, err
}

// seriesList is a storage.SeriesSet.
type seriesList struct {
	storage.SeriesSet
	all []storage.Series
	at  storage.Series
}

func (l *seriesList) Next() bool {
	if len(l.all) == 0 {
		return false
	}
	l.at, l.all = l.all[0], l.all[1:]
	return true
}
func (l *seriesList) At() storage.Series { return l.at }
func (*seriesList) Err() error           { return nil }

func (*seriesList) Warnings() annotations.Annotations { return nil }

// readData reads an answer of samples, not compressed.
func readData(c *Reader, e selection.Expectation, data []byte, chunksToo bool) (*selection.Selection, error) {
	q := uncounted()
	q.Exact, q.Expected = chunksToo, e
	return c.readOne(context.Background(), bytes.NewReader(snappy.Encode(nil, data)), false, q)
}

// requireLikePrometheus checks that an answer of samples, which need not make sense, is
// taken as Prometheus takes it, whatever is expected.
func requireLikePrometheus(t testing.TB, c *Reader, data []byte, r *rand.Rand) {
	want, wantErr := byPrometheus(data)
	got, err := readData(c, selection.Expectation{}, data, false)
	if err == nil {
		require.NoError(t, wantErr)
		require.Equal(t, chunksOf(want), chunksOf(got))
	}
	if wantErr != nil {
		require.Error(t, err)
		return
	}
	// What Prometheus writes, we read.
	var m prompb.ReadResponse
	require.NoError(t, m.Unmarshal(data))
	m.XXX_unrecognized, m.Results[0].XXX_unrecognized = nil, nil
	for _, ts := range m.Results[0].Timeseries {
		ts.XXX_unrecognized = nil
		for i := range ts.Labels {
			ts.Labels[i].XXX_unrecognized = nil
		}
		for i := range ts.Samples {
			ts.Samples[i].XXX_unrecognized = nil
		}
	}
	var expected []labels.Labels
	for _, l := range want.Series() {
		if r.IntN(4) > 0 {
			expected = append(expected, l)
		}
	}
	expectation := selection.Expectation{Series: expected}
	for range 2 { // the second time, where series come is known
		got, err = readData(c, expectation, marshal(&m), false)
		require.NoError(t, err)
		require.Equal(t, chunksOf(want), chunksOf(got))
	}
	exact, err := readData(c, expectation, marshal(&m), true)
	if err != nil {
		require.ErrorIs(t, err, ErrUnfit)
		return
	}
	require.Equal(t, chunksOf(want), chunksOf(exact))
}

// FuzzSamples checks that nothing in an answer of samples makes the client panic, and
// that it is taken as Prometheus takes it.
func FuzzSamples(f *testing.F) {
	one := func(ts ...*prompb.TimeSeries) []byte {
		return marshal(&prompb.ReadResponse{Results: []*prompb.QueryResult{{Timeseries: ts}}})
	}
	f.Add(one(floats("a", 1, 2, 3)))
	f.Add(one(floats("b", 1_700_000_000_000, 1_700_000_015_000), floats("a", math.MinInt64, 0, 5), floats("b", 7), floats("c")))
	f.Add(one(floats("a", 5, 5)))
	f.Add(one(floats("a", 5, math.MaxInt64, 7)))
	f.Add(one(&prompb.TimeSeries{Labels: []prompb.Label{{Name: "b", Value: "1"}, {Name: "a"}}, Samples: []prompb.Sample{{Value: -1}}}))
	h := floats("h", 1, 3)
	h.Histograms = []prompb.Histogram{prompb.FromIntHistogram(2, tsdbutil.GenerateTestHistogram(1)), prompb.FromIntHistogram(3, &histogram.Histogram{})}
	h.Exemplars = []prompb.Exemplar{{Value: 1}}
	f.Add(one(h))
	f.Add([]byte{0x0a, 4, 0x0a, 2, 0x22, 0})                                     // a series of an empty histogram
	f.Add([]byte{0x0a, 10, 0x0a, 8, 0x22, 6, 0x20, 40, 0x5a, 2, 0x08, 3})        // one of another kind
	f.Add([]byte{0x0a, 12, 0x0a, 10, 0x12, 2, 0x10, 1, 0x0a, 4, 0x0a, 1, 65, 0}) // a sample before a label
	f.Add([]byte{0x12, 0, 0x0a, 6, 0x1a, 0, 0x0a, 2, 0x2a, 0, 0x18, 3})          // unknown fields
	c := within(1 << 20)
	f.Fuzz(func(t *testing.T, data []byte) {
		requireLikePrometheus(t, c, data, rand.New(rand.NewPCG(1, uint64(len(data)))))
	})
}

// TestSamplesLikePrometheus reads answers of many series in any order, with labels that
// are sorted or not, some series more than once, samples of all kinds.
func TestSamplesLikePrometheus(t *testing.T) {
	c := within(1 << 20)
	r := rand.New(rand.NewPCG(9, 9))
	for range 300 {
		var all []*prompb.TimeSeries
		for range r.IntN(40) {
			ts := &prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: "m"}, {Name: "i", Value: fmt.Sprint(r.IntN(30))}}}
			if r.IntN(5) == 0 {
				ts.Labels = append(ts.Labels, prompb.Label{Name: "long", Value: string(bytes.Repeat([]byte{'x'}, r.IntN(300)))})
			}
			if r.IntN(10) == 0 {
				slices.Reverse(ts.Labels)
			}
			at := r.Int64N(1 << 42)
			for range r.IntN(8) * r.IntN(40) {
				ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: at, Value: float64(r.IntN(5))})
				at += 1 + r.Int64N(30_000)
			}
			if r.IntN(10) == 0 {
				ts.Histograms = append(ts.Histograms, prompb.FromIntHistogram(at, tsdbutil.GenerateTestHistogram(1)))
			}
			all = append(all, ts)
		}
		requireLikePrometheus(t, c, marshal(&prompb.ReadResponse{Results: []*prompb.QueryResult{{Timeseries: all}}}), r)
	}
}

// Zeros of series that may be negative may be of either sign, so they are no good where
// chunks tell, and so are native histograms.
func TestUnfitSamples(t *testing.T) {
	c := within(1 << 30)
	series := func(v float64) *prompb.TimeSeries {
		return &prompb.TimeSeries{Labels: []prompb.Label{{Name: "a", Value: "b"}}, Samples: []prompb.Sample{{Timestamp: 1, Value: 1}, {Timestamp: 2, Value: v}}}
	}
	h := series(1)
	h.Histograms = []prompb.Histogram{prompb.FromIntHistogram(5, tsdbutil.GenerateTestHistogram(1))}
	data := func(ts *prompb.TimeSeries) []byte {
		return marshal(&prompb.ReadResponse{Results: []*prompb.QueryResult{{Timeseries: []*prompb.TimeSeries{ts}}}})
	}
	explicit := data(series(1))
	at := bytes.LastIndexByte(explicit, 0x09)
	copy(explicit[at+1:], make([]byte, 8))
	expect := func(signed bool, value string) selection.Expectation {
		return selection.Expectation{
			Series: []labels.Labels{labels.FromStrings("a", "a"), labels.FromStrings("a", value)},
			Signed: func(i int) bool { return signed && i == 1 },
		}
	}
	nothing := selection.Expectation{}
	below := series(0)
	below.Samples[0].Value = -1
	for _, test := range []struct {
		name  string
		data  []byte
		e     selection.Expectation
		unfit bool
	}{
		{"not zero", data(series(2)), nothing, false},
		{"zero", data(series(0)), nothing, true},
		{"minus zero", data(series(math.Copysign(0, -1))), nothing, true},
		{"zero that is sent", explicit, nothing, false},
		{"zero of a series that is never negative", data(series(0)), expect(false, "b"), false},
		{"zero of a series that may be negative", data(series(0)), expect(true, "b"), true},
		{"other value of that", data(series(1)), expect(true, "b"), false},
		{"zero of another series", data(series(0)), expect(true, "c"), false},
		{"zero of another series that is negative, too", data(below), expect(true, "c"), true},
		{"histogram", data(h), nothing, true},
		{"histogram of a series that is never negative", data(h), expect(false, "b"), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := readData(c, test.e, test.data, false)
			require.NoError(t, err)
			_, err = readData(c, test.e, test.data, true)
			require.Equal(t, test.unfit, errors.Is(err, ErrUnfit), err)
		})
	}
}

// Labels that are expected are those that a selection has, and a reader that is used
// again holds on to none.
func TestSamplesOfExpectedSeries(t *testing.T) {
	c := within(1 << 30)
	for _, shuffled := range []bool{false, true} {
		data := sampledAnswer(300, 5, shuffled)
		read := func(e selection.Expectation) *selection.Selection {
			var gotBytes, gotSeries int64
			q := &Part{Exact: true, Expected: e, Count: func(bytes, series int64) error {
				gotBytes, gotSeries = bytes, series
				return nil
			}}
			s, err := c.readOne(t.Context(), bytes.NewReader(data), false, q)
			require.NoError(t, err)
			require.EqualValues(t, 300, gotSeries)
			require.EqualValues(t, s.PayloadBytes(), gotBytes)
			return s
		}
		first := read(selection.Expectation{})
		require.EqualValues(t, 1500, first.NumSamples())
		for range 3 {
			again := read(selection.Expectation{Series: first.Series()})
			require.Equal(t, chunksOf(first), chunksOf(again))
			for i, l := range first.Series() {
				require.True(t, sameString(l, again.Labels(i)))
			}
		}
	}
	s := samplesReaders.Get().(*samplesReader)
	require.Empty(t, s.expected.series)
}

// sampledAnswer is an answer of samples as a Prometheus sends it: compressed, with
// the given number of samples of each series, 15 s apart.
func sampledAnswer(series, samples int, shuffled bool) []byte {
	var all []*prompb.TimeSeries
	for i := range series {
		ts := &prompb.TimeSeries{Labels: []prompb.Label{
			{Name: "__name__", Value: "http_requests_total"}, {Name: "cluster", Value: "eu-west-1"}, {Name: "code", Value: "200"},
			{Name: "handler", Value: "/api/v1/query"}, {Name: "instance", Value: fmt.Sprintf("host-%05d.example.org:9090", i)},
			{Name: "job", Value: "job-1"}, {Name: "method", Value: "GET"}, {Name: "namespace", Value: "default"},
			{Name: "pod", Value: fmt.Sprintf("api-6d4cf56db6-%05d", i)},
		}}
		v := float64(1000 * (i + 1))
		for n := range samples {
			v += float64((n*7+i)%13) / 4
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: 1_700_000_000_000 + int64(n)*15_000 + int64(n*i%3), Value: v})
		}
		all = append(all, ts)
	}
	if shuffled {
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	return snappy.Encode(nil, marshal(&prompb.ReadResponse{Results: []*prompb.QueryResult{{Timeseries: all}}}))
}

// bombOf is a snappy stream that says that it is n bytes long.
func bombOf(n uint64) []byte { return append(binary.AppendUvarint(nil, n), 0, 'x') }

// FuzzAnswer decompresses any bytes as an answer of samples: what snappy itself makes of them
// within the limit, or an error.
func FuzzAnswer(f *testing.F) {
	whole := snappy.Encode(nil, bytes.Repeat([]byte("samples "), 100))
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(append(bytes.Clone(whole), 0))
	f.Add([]byte{})
	f.Add(bombOf(1 << 16))
	f.Add(bombOf(1 << 40))
	const most = 1 << 16
	f.Fuzz(func(t *testing.T, data []byte) {
		var s samplesReader
		got, err := s.read(bytes.NewReader(data), most)
		want, wantErr := snappy.Decode(nil, data)
		switch {
		case err == nil:
			require.NoError(t, wantErr)
			require.True(t, bytes.Equal(want, got))
		case len(data) <= most && len(want) <= most:
			require.Error(t, wantErr, err)
		}
		if cap(s.data) > 2*most || cap(s.data) > 2*mostCompressed*(len(data)+64) {
			t.Errorf("%d bytes taken for %d", cap(s.data), len(data))
		}
	})
}
