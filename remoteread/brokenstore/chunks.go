package brokenstore

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/prometheus/prometheus/prompb"
)

// chunkKinds are the kinds whose chunks are broken.
var chunkKinds = []Kind{
	altered("an unknown encoding", "unknown chunk encoding 99", func(x *exchange) { x.first().Type = 99 }),
	altered("an encoding over a byte", "unknown chunk encoding 257", func(x *exchange) { x.first().Type = 257 }),
	altered("a chunk without data", "is shorter than its header", func(x *exchange) { x.first().Data = nil }),
	altered("a chunk that ends before it starts", "its start is after its end", func(x *exchange) { x.first().MaxTimeMs = x.first().MinTimeMs - 1 }),
	altered("a sample before its chunk's start", "lies outside its stated time range", func(x *exchange) { x.first().MinTimeMs++ }),
	altered("samples of another time", "lies outside its stated time range", func(x *exchange) {
		c := x.first()
		c.MinTimeMs, c.MaxTimeMs = c.MinTimeMs+100*Step, c.MaxTimeMs+100*Step
	}),
	late("a sample behind its chunk's end", "", func(x *exchange) { x.first().MaxTimeMs-- }),
	late("samples that are not in order", "", func(x *exchange) {
		c := x.first()
		t := c.MinTimeMs
		*c = chunk(0, t, t+5*Step, t+3*Step, t+6*Step)
	}),
	late("a sample twice", "", func(x *exchange) {
		c := x.first()
		t := c.MinTimeMs
		*c = chunk(0, t, t+5*Step, t+5*Step, t+6*Step)
	}),
	late("samples of one time", "", func(x *exchange) {
		c := x.first()
		t := c.MinTimeMs
		*c = chunk(0, t, t+6*Step, t+6*Step, t+6*Step, t+6*Step)
	}),
	late("times that go backwards", "", func(x *exchange) {
		c := x.first()
		t := c.MinTimeMs
		*c = chunk(0, t+6*Step, t+4*Step, t+2*Step, t)
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
		for _, t := range []int64{s.Chunks[0].MinTimeMs, s.Chunks[0].MinTimeMs + Step} {
			s.Chunks = append(s.Chunks, chunk(0, t, t+2*Step))
		}
	}),
	altered("thousands of chunks that overlap", "", func(x *exchange) {
		s := x.series[0]
		t := s.Chunks[0].MinTimeMs
		for n := range int64(3000) {
			s.Chunks = append(s.Chunks, chunk(0, t+n%7*Step, t+(7+n%3)*Step))
		}
	}),
	altered("a chunk that is said to end at the end of time", "", func(x *exchange) {
		s := x.series[0]
		s.Chunks[len(s.Chunks)-1].MaxTimeMs = math.MaxInt64
	}),
	altered("chunks of another time than asked for", "", func(x *exchange) {
		s := x.series[0]
		t := s.Chunks[0].MinTimeMs - 1000*Step
		s.Chunks = append(s.Chunks, chunk(0, t, t+Step))
	}),
}

// counts makes the first chunk count n samples.
func counts(x *exchange, n uint16) { binary.BigEndian.PutUint16(x.first().Data, n) }
