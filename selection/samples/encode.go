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
	c, first, last, err := encodeAs(e, it)
	if err != nil || c.NumSamples() == 0 {
		return err
	}
	return w.Chunk(e, first, last, c.Bytes())
}

// encodeAs returns one chunk of all samples of it, which come from a chunk in
// encoding e, in that encoding, and the times of the first and last of them (ms).
func encodeAs(e chunkenc.Encoding, it chunkenc.Iterator) (c chunkenc.Chunk, first, last int64, err error) {
	if c, err = chunkenc.NewEmptyChunk(e); err != nil {
		return nil, 0, 0, err
	}
	app, err := c.Appender()
	if err != nil {
		return nil, 0, 0, err
	}
	gauge := false // whether the chunk is one of gauges, which a stale marker does not say
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		st := it.AtST()
		if c.NumSamples() == 0 {
			first = it.AtT()
		}
		switch v {
		case chunkenc.ValFloat:
			var f float64
			last, f = it.At()
			app.Append(st, last, f)
		case chunkenc.ValHistogram:
			t, h := it.AtHistogram(nil)
			last = t
			if gauge = gauge || h.CounterResetHint == histogram.GaugeType; gauge {
				h.CounterResetHint = histogram.GaugeType
			}
			_, _, app, err = app.AppendHistogram(nil, st, t, h, true)
		default:
			t, h := it.AtFloatHistogram(nil)
			last = t
			if gauge = gauge || h.CounterResetHint == histogram.GaugeType; gauge {
				h.CounterResetHint = histogram.GaugeType
			}
			_, _, app, err = app.AppendFloatHistogram(nil, st, t, h, true)
		}
		if err != nil {
			return nil, 0, 0, err
		}
	}
	return c, first, last, it.Err()
}
