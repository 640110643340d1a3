package samples

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/yield"
	"github.com/promwarp/promwarp/selection/slab"
)

// layers returns the samples of the chunks in lists.
func (w *Writer) layers(l labels.Labels, slabs slab.Slabs, lists [][]slab.Chunk) *layers {
	it := &layers{watch: &w.Watch, all: make([]layer, len(lists))}
	for k, cs := range lists {
		of := whole(l, slabs, cs)
		it.all[k].Iterator = of.Iterator(nil)
	}
	return it
}

// layer is the samples of one source.
type layer struct {
	chunkenc.Iterator
	kind chunkenc.ValueType // of the sample that it is at; ValNone before the first and at the end
	t    int64              // its time
}

// layers yields the samples of all layers in time order; of those at one time,
// the first layer's.
type layers struct {
	chunkenc.Iterator // that of the present sample
	all               []layer
	watch             *yield.Watch
	began             bool
	at                int  // index of the present sample's layer
	follows           bool // whether it follows the one before it within its layer
	err               error
}

func (it *layers) Next() chunkenc.ValueType {
	if it.err != nil {
		return chunkenc.ValNone
	}
	if it.err = it.watch.Err(); it.err != nil {
		return chunkenc.ValNone
	}
	before, least := it.at, -1
	last := it.all[before].t
	for k := range it.all {
		x := &it.all[k]
		if !it.began || x.kind != chunkenc.ValNone && x.t == last {
			if x.kind = x.Next(); x.kind != chunkenc.ValNone {
				x.t = x.AtT()
			} else if it.err = x.Err(); it.err != nil {
				return chunkenc.ValNone
			}
		}
		if x.kind != chunkenc.ValNone && (least < 0 || x.t < it.all[least].t) {
			least = k
		}
	}
	if least < 0 {
		return chunkenc.ValNone
	}
	it.follows = it.began && least == before
	it.began, it.at, it.Iterator = true, least, it.all[least].Iterator
	return it.all[least].kind
}

// only reads up to the first sample that is not of the same layer as the first. If
// there is none it returns that layer.
func (it *layers) only() (layer int, ok bool, err error) {
	if it.Next() == chunkenc.ValNone {
		return 0, false, it.err
	}
	layer = it.at
	for it.at == layer {
		if it.Next() == chunkenc.ValNone {
			return layer, it.err == nil, it.err
		}
	}
	return 0, false, nil
}

// AtHistogram forgets the hint of a histogram that does not follow the one before
// it within its source, as nothing is known then about resets between them.
func (it *layers) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	t, h := it.Iterator.AtHistogram(h)
	h.CounterResetHint = it.hint(h.CounterResetHint)
	return t, h
}

// AtFloatHistogram is like AtHistogram.
func (it *layers) AtFloatHistogram(h *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	t, h := it.Iterator.AtFloatHistogram(h)
	h.CounterResetHint = it.hint(h.CounterResetHint)
	return t, h
}

func (it *layers) hint(h histogram.CounterResetHint) histogram.CounterResetHint {
	if it.follows || h == histogram.GaugeType {
		return h
	}
	return histogram.UnknownCounterReset
}

func (it *layers) Err() error { return it.err }
