package selection

import "github.com/prometheus/prometheus/tsdb/chunkenc"

// Decode returns an iterator over the samples from mint to maxt (ms, both included) of
// chunks, which are some of series i in time order. What it decodes is checked: samples
// out of order, or outside of what their chunk says, are a CorruptError, and the
// selection is discarded. reuse is an iterator of an earlier call, or nil.
func (s *Selection) Decode(i int, chunks []Chunk, mint, maxt int64, reuse chunkenc.Iterator) chunkenc.Iterator {
	return (&series{sel: s, labels: s.series[i], chunks: chunks, mint: mint, maxt: maxt}).Iterator(reuse)
}
