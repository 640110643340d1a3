package samples

import (
	"fmt"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/yield"
)

// Samples writes samples of any kind, which must be in time order. Floats is faster where it will
// do.
func (w *Writer) Samples(from chunkenc.Iterator) error {
	it := &inOrder{Iterator: from, series: w.labels, watch: &w.Watch}
	enc := storage.NewSeriesToChunkEncoder(&oneSeries{it: it}).Iterator(nil)
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
	watch  *yield.Watch
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

// oneSeries is a storage.Series over an iterator that is used once.
type oneSeries struct{ it *inOrder }

func (s *oneSeries) Labels() labels.Labels                        { return s.it.series }
func (s *oneSeries) Iterator(chunkenc.Iterator) chunkenc.Iterator { return s.it }

// OneChunk writes all samples of it, which come from a chunk in encoding e, as one chunk in that
// encoding, or none if there are none.
func (w *Writer) OneChunk(e chunkenc.Encoding, it chunkenc.Iterator) error {
	data, first, last, err := Encode(e, it)
	if err != nil || data == nil {
		return err
	}
	return w.Chunk(e, first, last, data)
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
