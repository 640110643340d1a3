package engine

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/prometheus/prometheus/prompb"
)

// chunkKinds are the kinds whose chunks are broken.
var chunkKinds = []brokenKind{
	altered("an unknown encoding", "unknown chunk encoding 99", func(x *exchange) { x.first().Type = 99 }),
	altered("an encoding over a byte", "unknown chunk encoding 257", func(x *exchange) { x.first().Type = 257 }),
	altered("a chunk without data", "is shorter than its header", func(x *exchange) { x.first().Data = nil }),
	altered("a chunk that ends before it starts", "its start is after its end", func(x *exchange) { x.first().MaxTimeMs = x.first().MinTimeMs - 1 }),
	altered("a sample before its chunk's start", "lies outside its stated time range", func(x *exchange) { x.first().MinTimeMs++ }),
	altered("samples of another time", "lies outside its stated time range", func(x *exchange) {
		c := x.first()
		c.MinTimeMs, c.MaxTimeMs = c.MinTimeMs+100*brokenStep, c.MaxTimeMs+100*brokenStep
	}),
	late("a sample behind its chunk's end", "", func(x *exchange) { x.first().MaxTimeMs-- }),
	late("samples that are not in order", "", func(x *exchange) {
		c := x.first()
		t := c.MinTimeMs
		*c = chunk(0, t, t+5*brokenStep, t+3*brokenStep, t+6*brokenStep)
	}),
	late("a sample twice", "", func(x *exchange) {
		c := x.first()
		t := c.MinTimeMs
		*c = chunk(0, t, t+5*brokenStep, t+5*brokenStep, t+6*brokenStep)
	}),
	late("samples of one time", "", func(x *exchange) {
		c := x.first()
		t := c.MinTimeMs
		*c = chunk(0, t, t+6*brokenStep, t+6*brokenStep, t+6*brokenStep, t+6*brokenStep)
	}),
	late("times that go backwards", "", func(x *exchange) {
		c := x.first()
		t := c.MinTimeMs
		*c = chunk(0, t+6*brokenStep, t+4*brokenStep, t+2*brokenStep, t)
	}),
	altered("a chunk whose bounds are zero", "lies outside its stated time range", func(x *exchange) { x.first().MinTimeMs, x.first().MaxTimeMs = 0, 0 }),
	altered("a chunk of zeros", "never take as many", func(x *exchange) { clear(x.first().Data) }),
	altered("more samples counted than there are", "more than fit into", func(x *exchange) { counts(x, math.MaxUint16) }),
	late("a few more samples counted than there are", "", func(x *exchange) {
		counts(x, binary.BigEndian.Uint16(x.first().Data)+40)
	}),
	altered("fewer samples counted than there are", "never take as many", func(x *exchange) { counts(x, 1) }),
	altered("no samples counted where there are some", "never take as many", func(x *exchange) { counts(x, 0) }),
	altered("a time of more than 64 bits", "its first sample has no time", func(x *exchange) {
		copy(x.first().Data[2:], bytes.Repeat([]byte{0xff}, 12))
	}),
	late("bits that end early", "", func(x *exchange) { x.first().Data = x.first().Data[:len(x.first().Data)*3/4] }),
	altered("a histogram of billions of buckets", "bucket layout", func(x *exchange) {
		c := x.first()
		c.Type, c.Data = prompb.Chunk_HISTOGRAM, append([]byte{0, 1, 0, 0}, bytes.Repeat([]byte{0xff}, 40)...)
	}),
	altered("a histogram chunk of a header", "bucket layout", func(x *exchange) {
		c := x.first()
		c.Type, c.Data = prompb.Chunk_FLOAT_HISTOGRAM, []byte{0, 1, 0}
	}),
	altered("an empty chunk", "", func(x *exchange) {
		s := x.series[0]
		s.Chunks = append(s.Chunks, prompb.Chunk{Type: prompb.Chunk_XOR, Data: []byte{0, 0}, MinTimeMs: s.Chunks[0].MinTimeMs, MaxTimeMs: s.Chunks[0].MinTimeMs})
	}),
	altered("chunks that are not in order", "", func(x *exchange) { slices.Reverse(x.series[0].Chunks) }),
	altered("a chunk twice", "", func(x *exchange) { x.series[0].Chunks = append(x.series[0].Chunks, *x.first()) }),
	altered("chunks that overlap", "", func(x *exchange) {
		s := x.series[0]
		for _, t := range []int64{s.Chunks[0].MinTimeMs, s.Chunks[0].MinTimeMs + brokenStep} {
			s.Chunks = append(s.Chunks, chunk(0, t, t+2*brokenStep))
		}
	}),
	altered("thousands of chunks that overlap", "", func(x *exchange) {
		s := x.series[0]
		t := s.Chunks[0].MinTimeMs
		for n := range int64(3000) {
			s.Chunks = append(s.Chunks, chunk(0, t+n%7*brokenStep, t+(7+n%3)*brokenStep))
		}
	}),
	altered("a chunk that is said to end at the end of time", "", func(x *exchange) {
		s := x.series[0]
		s.Chunks[len(s.Chunks)-1].MaxTimeMs = math.MaxInt64
	}),
	altered("chunks of another time than asked for", "", func(x *exchange) {
		s := x.series[0]
		t := s.Chunks[0].MinTimeMs - 1000*brokenStep
		s.Chunks = append(s.Chunks, chunk(0, t, t+brokenStep))
	}),
}

// counts makes the first chunk count n samples.
func counts(x *exchange, n uint16) { binary.BigEndian.PutUint16(x.first().Data, n) }

// seriesKinds are the kinds whose series or labels are broken.
var seriesKinds = []brokenKind{
	altered("series of another name", "does not match", relabelled("__name__", "another_total")),
	altered("series of another label", "does not match", relabelled("job", "another")),
	altered("series without labels", "does not match", func(x *exchange) { x.series[0].Labels = nil }),
	altered("an empty metric name", "the metric name is empty", relabelled("__name__", "")),
	altered("a label twice", "appears twice", func(x *exchange) {
		ls := &x.series[0].Labels
		*ls = append(*ls, prompb.Label{Name: "job", Value: "other"})
	}),
	altered("labels that are not sorted", "labels are not sorted", func(x *exchange) { slices.Reverse(x.series[0].Labels) }),
	altered("a label without a name", "a label has no name", func(x *exchange) {
		x.series[0].Labels = slices.Insert(x.series[0].Labels, 0, prompb.Label{Value: "x"})
	}),
	altered("a label's name that is not UTF-8", "is not valid UTF-8", func(x *exchange) {
		x.series[0].Labels = append(x.series[0].Labels, prompb.Label{Name: "z\xff", Value: "x"})
	}),
	altered("a label's value that is not UTF-8", "is not valid UTF-8", relabelled("instance", "\xff")),
	altered("series that are not sorted", "", func(x *exchange) { slices.Reverse(x.series) }),
	altered("a series twice", "", func(x *exchange) { x.series = append(x.series, x.series...) }),
	altered("a series in pieces", "", func(x *exchange) {
		var out []*prompb.ChunkedSeries
		for _, s := range x.series {
			for _, c := range s.Chunks {
				out = append(out, &prompb.ChunkedSeries{Labels: s.Labels, Chunks: []prompb.Chunk{c}})
			}
		}
		slices.Reverse(out)
		x.series = out
	}),
	altered("a series without chunks", "", func(x *exchange) {
		ls := append(slices.Clone(x.series[0].Labels), prompb.Label{Name: "z", Value: "1"})
		x.series = append(x.series, &prompb.ChunkedSeries{Labels: ls})
	}),
}

// relabelled gives the first series' label of that name, which it has, another value.
func relabelled(name, value string) func(*exchange) {
	return func(x *exchange) {
		ls := x.series[0].Labels
		ls[slices.IndexFunc(ls, func(l prompb.Label) bool { return l.Name == name })].Value = value
	}
}
