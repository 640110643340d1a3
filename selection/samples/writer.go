// Package samples reads and writes the samples of series that lie in encoded chunks.
//
// A Series yields the samples of chunks and checks what it decodes. A Writer makes chunks of
// samples, puts them into slabs of its own, and resolves what overlaps: Separate makes one list of
// the chunks that one source has sent of a series, Layer of those of several sources. Chunks that
// do not overlap others are never decoded, and lie where they lay.
//
// Start with Series and Writer.
package samples

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/yield"
	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/slab"
)

// Writer writes chunks, series by series. It is not safe for concurrent use.
type Writer struct {
	slab.Writer
	Chunks []slab.Chunk // those written, of all series
	Watch  yield.Watch  // ends Samples, Separate and Layer soon after its context has ended
	labels labels.Labels
}

// NewWriter returns a writer that fails with slab.ErrTooLarge past limit bytes of chunks; 0 means
// no limit. Its slabs are to come behind base others.
func NewWriter(ctx context.Context, base int, limit int64) *Writer {
	return &Writer{Writer: slab.NewWriter(base, limit), Watch: yield.Watch{Ctx: ctx}}
}

// Series starts a series; what is written next belongs to it.
func (w *Writer) Series(l labels.Labels) { w.labels = l }

// Chunk copies data, a chunk in encoding e with samples
// from minT to maxT (ms since the epoch, both included), into the slabs.
// A maxT of math.MaxInt64, as a store gives for a chunk still being written, is
// replaced by the time of the chunk's last sample.
func (w *Writer) Chunk(e chunkenc.Encoding, minT, maxT int64, data []byte) error {
	l := w.labels
	if !chunkenc.IsValidEncoding(e) {
		return fmt.Errorf("series %s: unknown chunk encoding %d; promwarp knows XOR, XOR2 and the histogram encodings", l, e)
	}
	if len(data) < encoding.HeaderBytes(e) {
		return &CorruptError{Series: l, MinT: minT, Err: fmt.Errorf("chunk of %d bytes is shorter than its header", len(data))}
	}
	if err := encoding.CheckLayout(e, data); err != nil {
		return &CorruptError{Series: l, MinT: minT, Err: err}
	}
	if maxT == math.MaxInt64 {
		last, err := encoding.LastTime(e, data)
		if err != nil {
			return &CorruptError{Series: l, MinT: minT, Err: err}
		}
		maxT = last
	}
	if minT > maxT {
		return &CorruptError{Series: l, MinT: minT, Err: fmt.Errorf("its start is after its end, %d ms", maxT)}
	}
	n := encoding.SampleCount(e, data)
	if n == 0 {
		return nil
	}
	copy(w.Room(len(data))[:len(data)], data)
	return w.claim(slab.Chunk{MinT: minT, MaxT: maxT, Samples: n, Enc: e}, len(data))
}

// claim makes an entry of a chunk of n bytes in the room that was found last.
func (w *Writer) claim(c slab.Chunk, n int) error {
	if err := w.Claim(&c, n); err != nil {
		return fmt.Errorf("series %s: %w", w.labels, err)
	}
	if len(w.Chunks) == cap(w.Chunks) { // append would grow a large table by a quarter
		w.Chunks = slices.Grow(w.Chunks, max(len(w.Chunks), fewChunks))
	}
	w.Chunks = append(w.Chunks, c)
	return nil
}

// fewChunks is the least number of chunks that there is room for.
const fewChunks = 16

// samplesPerChunk is the most samples of a chunk made here, as many as a Prometheus
// puts into the chunks that it makes of samples.
const samplesPerChunk = 120

// Floats writes float samples in XOR chunks. times are in ms
// since the epoch and must ascend; there is a value for each.
func (w *Writer) Floats(times []int64, values []float64) error {
	for len(times) > 0 {
		n := min(len(times), samplesPerChunk)
		if err := w.floats(times[:n], values[:n]); err != nil {
			return err
		}
		if n < len(times) && times[n] <= times[n-1] {
			return notAscending(w.labels, times[n], times[n-1])
		}
		times, values = times[n:], values[n:]
	}
	return nil
}

// floats writes one chunk.
func (w *Writer) floats(times []int64, values []float64) error {
	for i := 1; i < len(times); i++ {
		if times[i] <= times[i-1] {
			return notAscending(w.labels, times[i], times[i-1])
		}
	}
	data := encoding.AppendXOR(w.Room(encoding.MostXORBytes(len(times))), times, values)
	return w.claim(slab.Chunk{MinT: times[0], MaxT: times[len(times)-1], Samples: uint16(len(times)), Enc: chunkenc.EncXOR}, len(data))
}
