package reduce

import (
	"slices"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/encoding"
)

// part is some of what a series is sent as: a chunk of the selection as it is, or a new one.
type part struct {
	*selection.Chunk
	data []byte // of a new one
}

// encoder makes chunks of samples.
type encoder struct{ scratch []byte }

// perChunk is the most samples of a chunk. Each chunk costs the bytes of some ten samples, and
// nobody looks for a part of what is left.
const perChunk = 1000

// encode appends the chunks of samples to parts.
func (e *encoder) encode(parts []part, times []int64, values []float64) []part {
	for len(times) > 0 {
		n := min(len(times), perChunk)
		e.scratch = encoding.AppendTightXOR(e.scratch[:0], times[:n], values[:n])
		parts = append(parts, part{&selection.Chunk{Enc: chunkenc.EncXOR, MinT: times[0], MaxT: times[n-1]}, slices.Clone(e.scratch)})
		times, values = times[n:], values[n:]
	}
	return parts
}

// write adds parts of a series to b. Those that are not new are chunks of sel.
func write(b *selection.Builder, parts []part, sel *selection.Selection) error {
	for _, p := range parts {
		data := p.data
		if data == nil {
			data = sel.Bytes(*p.Chunk)
		}
		if err := b.Chunk(p.Enc, p.MinT, p.MaxT, data); err != nil {
			return err
		}
	}
	return nil
}
