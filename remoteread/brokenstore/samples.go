package brokenstore

import (
	"encoding/binary"
	"slices"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// sampleKinds are the kinds that answer with samples, and wrongly.
var sampleKinds = []Kind{
	compressed("samples that are not compressed", "not compressed with snappy", nil),
	compressed("compression that is damaged", "cannot be decompressed", []byte{0x20, 1, 2, 3}),
	compressed("snappy that claims gigabytes", "exceeds the limit", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}),
	compressed("snappy of a hundred megabytes of nothing", "exceeds the limit", snappyBomb(100<<20)),
	{Name: "zeros in place of samples, without end", Fails: true, Endless: true, Says: "goes on behind the 0 bytes", answer: func(x *exchange) {
		for x.compressed(make([]byte, 1<<20)); x.write(make([]byte, 1<<20)); {
		}
	}},
	compressed("garbage in samples", "not valid protobuf", snappy.Encode(nil, []byte{0x0a, 2, 0x0a, 0x50})),
	compressed("no result", "the answer holds 0 results", snappy.Encode(nil, nil)),
	{Name: "a result too many", Fails: true, Says: "results", answer: func(x *exchange) {
		x.queries++
		x.samples()
	}},
	sampled("samples that are not in time order", "comes after one at", func(x *exchange) *prompb.TimeSeries {
		t := x.first().MinTimeMs
		return x.floats(t, t+2*Step, t+Step)
	}),
	sampled("a sample twice among samples", "comes after one at", func(x *exchange) *prompb.TimeSeries {
		t := x.first().MinTimeMs
		return x.floats(t, t+Step, t+Step)
	}),
	sampled("samples without labels", "does not match", func(x *exchange) *prompb.TimeSeries {
		ts := x.floats(x.first().MinTimeMs)
		ts.Labels = nil
		return ts
	}),
	{Name: "samples of series that are not sorted", answer: func(x *exchange) {
		var r prompb.QueryResult
		for i := range slices.Backward(x.series) {
			c := x.series[i].Chunks
			var times []int64
			for t := c[0].MinTimeMs; t <= c[len(c)-1].MaxTimeMs; t += Step {
				times = append(times, t)
			}
			r.Timeseries = append(r.Timeseries, x.floatsOf(i, times...))
		}
		x.samples(&r)
	}},
	sampled("samples of another series", "does not match", func(x *exchange) *prompb.TimeSeries {
		relabelled("job", "another")(x)
		return x.floats(x.first().MinTimeMs)
	}),
	sampled("samples with a label twice", "appears twice", func(x *exchange) *prompb.TimeSeries {
		ts := x.floats(x.first().MinTimeMs)
		ts.Labels = append(ts.Labels, prompb.Label{Name: "job", Value: "x"})
		return ts
	}),
	sampled("samples without a label's name", "a label has no name", func(x *exchange) *prompb.TimeSeries {
		ts := x.floats(x.first().MinTimeMs)
		ts.Labels = append(ts.Labels, prompb.Label{Value: "x"})
		return ts
	}),
}

func compressed(name, says string, b []byte) Kind {
	return Kind{Name: name, Fails: true, Says: says, answer: func(x *exchange) { x.compressed(b) }}
}

func sampled(name, says string, of func(*exchange) *prompb.TimeSeries) Kind {
	return Kind{Name: name, Fails: true, Says: says, answer: func(x *exchange) {
		x.samples(&prompb.QueryResult{Timeseries: []*prompb.TimeSeries{of(x)}})
	}}
}

// snappyBomb is n zeros as snappy has them: a literal and copies of it.
func snappyBomb(n int) []byte {
	b := append(binary.AppendUvarint(nil, uint64(n)), 0, 0)
	for left := n - 1; left > 0; left -= 64 {
		b = append(b, byte(min(left, 64)-1)<<2|2, 1, 0)
	}
	return b
}
