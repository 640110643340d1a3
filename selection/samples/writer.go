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

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/slab"
)

// Writer writes chunks, series by series. It is not safe for concurrent use.
type Writer struct {
	slab.Writer
	Chunks []slab.Chunk   // those written, of all series
	Watch  parallel.Watch // ends Samples, Separate and Layer soon after its context has ended
	Labels labels.Labels  // of the series that what is written next belongs to
}

// NewWriter returns a writer that fails with slab.ErrTooLarge past limit bytes of chunks; 0 means
// no limit. Its slabs are to come behind base others.
func NewWriter(ctx context.Context, base int, limit int64) *Writer {
	return &Writer{Writer: slab.NewWriter(base, limit), Watch: parallel.Watch{Ctx: ctx}}
}

// Chunk copies data, a chunk in encoding e with samples
// from minT to maxT (ms since the epoch, both included), into the slabs.
// A maxT of math.MaxInt64, as a store gives for a chunk still being written, is
// replaced by the time of the chunk's last sample.
func (w *Writer) Chunk(e chunkenc.Encoding, minT, maxT int64, data []byte) error {
	l := w.Labels
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
		return fmt.Errorf("series %s: %w", w.Labels, err)
	}
	if len(w.Chunks) == cap(w.Chunks) { // append would clear, and so touch, all of the larger table
		w.Chunks = append(make([]slab.Chunk, 0, max(2*len(w.Chunks), fewChunks)), w.Chunks...)
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
			return notAscending(w.Labels, times[n], times[n-1])
		}
		times, values = times[n:], values[n:]
	}
	return nil
}

// floats writes one chunk.
func (w *Writer) floats(times []int64, values []float64) error {
	for i := 1; i < len(times); i++ {
		if times[i] <= times[i-1] {
			return notAscending(w.Labels, times[i], times[i-1])
		}
	}
	data := encoding.AppendXOR(w.Room(encoding.MostXORBytes(len(times))), times, values)
	return w.claim(slab.Chunk{MinT: times[0], MaxT: times[len(times)-1], Samples: uint16(len(times)), Enc: chunkenc.EncXOR}, len(data))
}

// Samples writes samples of any kind, which must be in time order. Floats is faster where it will
// do.
func (w *Writer) Samples(from chunkenc.Iterator) error {
	it := &inOrder{Iterator: from, series: w.Labels, watch: &w.Watch}
	series := &storage.SeriesEntry{Lset: w.Labels, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator { return it }}
	enc := storage.NewSeriesToChunkEncoder(series).Iterator(nil)
	for enc.Next() {
		m := enc.At()
		if err := w.Chunk(m.Chunk.Encoding(), m.MinTime, m.MaxTime, m.Chunk.Bytes()); err != nil {
			return err
		}
	}
	if it.err != nil {
		return it.err
	}
	return enc.Err()
}

// inOrder passes samples through until one does not come after the one before.
type inOrder struct {
	chunkenc.Iterator
	series labels.Labels
	watch  *parallel.Watch
	last   int64
	any    bool
	err    error
}

func (it *inOrder) Next() chunkenc.ValueType {
	if it.err != nil {
		return chunkenc.ValNone
	}
	if it.err = it.watch.Err(); it.err != nil {
		return chunkenc.ValNone
	}
	v := it.Iterator.Next()
	if v == chunkenc.ValNone {
		return v
	}
	t := it.AtT()
	if it.any && t <= it.last {
		it.err = notAscending(it.series, t, it.last)
		return chunkenc.ValNone
	}
	it.last, it.any = t, true
	return v
}

func notAscending(l labels.Labels, t, last int64) error {
	return fmt.Errorf("series %s: sample at %d ms comes after one at %d ms; samples must be in time order", l, t, last)
}

func (it *inOrder) Err() error {
	if it.err != nil {
		return it.err
	}
	return it.Iterator.Err()
}

// OneChunk writes all samples of it, which come from a chunk in encoding e, as one chunk in that
// encoding, or none if there are none.
func (w *Writer) OneChunk(e chunkenc.Encoding, it chunkenc.Iterator) error {
	if e != chunkenc.EncXOR {
		data, first, last, err := Encode(e, it)
		if err != nil || data == nil {
			return err
		}
		return w.Chunk(e, first, last, data)
	}
	times, values := make([]int64, 0, samplesPerChunk), make([]float64, 0, samplesPerChunk)
	for it.Next() != chunkenc.ValNone {
		t, v := it.At()
		times, values = append(times, t), append(values, v)
	}
	if it.Err() != nil || len(times) == 0 {
		return it.Err()
	}
	return w.floats(times, values)
}

// Encode returns the bytes of one chunk in encoding e of all samples of it, which come from one
// chunk, and the times of the first and the last of them (ms); none if there are none.
func Encode(e chunkenc.Encoding, it chunkenc.Iterator) (data []byte, first, last int64, err error) {
	c, err := chunkenc.NewEmptyChunk(e)
	if err != nil {
		return nil, 0, 0, err
	}
	app, err := c.Appender()
	if err != nil {
		return nil, 0, 0, err
	}
	// A stale marker does not say that the chunk is one of gauges.
	gauge := false
	hint := func(h histogram.CounterResetHint) histogram.CounterResetHint {
		if gauge = gauge || h == histogram.GaugeType; gauge {
			return histogram.GaugeType
		}
		return h
	}
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		st := it.AtST()
		last = it.AtT()
		if c.NumSamples() == 0 {
			first = last
		}
		switch v {
		case chunkenc.ValFloat:
			_, f := it.At()
			app.Append(st, last, f)
		case chunkenc.ValHistogram:
			_, h := it.AtHistogram(nil)
			h.CounterResetHint = hint(h.CounterResetHint)
			_, _, app, err = app.AppendHistogram(nil, st, last, h, true)
		default:
			_, h := it.AtFloatHistogram(nil)
			h.CounterResetHint = hint(h.CounterResetHint)
			_, _, app, err = app.AppendFloatHistogram(nil, st, last, h, true)
		}
		if err != nil {
			return nil, 0, 0, err
		}
	}
	if err := it.Err(); err != nil || c.NumSamples() == 0 {
		return nil, 0, 0, err
	}
	return c.Bytes(), first, last, nil
}
