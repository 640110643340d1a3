// Package newest looks at the newest samples of a selection: up to when it is complete, so that it
// may be kept though it is young, and how many samples the next fetch is likely to bring. It reads
// the last chunk of each series.
//
// Start with Complete.
package newest

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// Complete returns the end of the stretch that every series of before and sel, which
// is newer, has newer samples than, but at most until, and whether there is one. Only
// series that go on count, which have a sample since alive. Histograms whose chunks are
// cut lose what their store knew of resets, so with them there is none. Times are in ms.
func Complete(before, sel *selection.Selection, alive, until int64) (int64, bool) {
	if !sel.OnlyFloats() || !before.OnlyFloats() {
		return 0, false
	}
	any := false
	look := func(sel *selection.Selection, i int) {
		cs := sel.Chunks(i)
		k := cs[len(cs)-1]
		switch {
		case k.MaxT < alive:
		case k.MaxT+1 >= until:
			any = true
		case !ended(sel, k):
			any = true
			until = k.MaxT + 1
		}
	}
	i := 0
	for k := range sel.NumSeries() {
		l := sel.Labels(k)
		for ; i < before.NumSeries(); i++ {
			if labels.Equal(before.Labels(i), l) {
				i++
				break
			}
			if labels.Compare(before.Labels(i), l) > 0 {
				break
			}
			look(before, i)
		}
		look(sel, k)
	}
	for ; i < before.NumSeries(); i++ {
		look(before, i)
	}
	return until, any
}

// ended reports whether the series whose last chunk is k has been said to have ended.
func ended(sel *selection.Selection, k selection.Chunk) bool {
	last, err := floats(sel, k, func(float64) {})
	return err == nil && value.IsStaleNaN(last)
}

// signed returns a function that reports whether the last chunk of a series of sel
// has a value below 0, or -0.
func signed(sel *selection.Selection) func(series int) bool {
	return func(series int) bool {
		cs := sel.Chunks(series)
		found := false
		_, err := floats(sel, cs[len(cs)-1], func(v float64) { found = found || math.Signbit(v) && !math.IsNaN(v) })
		return found || err != nil
	}
}

// floats calls f with all values of chunk k of sel and returns the last one, NaN for none.
func floats(sel *selection.Selection, k selection.Chunk, f func(float64)) (last float64, err error) {
	c, err := chunkenc.FromData(k.Enc, sel.Bytes(k))
	if err != nil {
		return 0, err
	}
	last = math.NaN()
	it := c.Iterator(nil)
	for v := it.Next(); v == chunkenc.ValFloat; v = it.Next() {
		_, last = it.At()
		f(last)
	}
	return last, it.Err()
}

// fewest is how many series tell how far apart samples are.
const fewest = 8

// Expectation is what a fetch of a stretch of so many ms is likely to bring of the series of sel.
func Expectation(sel *selection.Selection, length int64) (x selection.Expectation) {
	x.Series = sel.Series()
	if sel.Has(chunkenc.EncXOR2) || !sel.OnlyFloats() {
		return x // samples alone would lack something
	}
	x.Signed = signed(sel)
	n := len(x.Series)
	for i := range min(fewest, n) {
		cs := sel.Chunks(i * n / min(fewest, n))
		if k := cs[len(cs)-1]; k.Samples > 1 {
			between := max(1, (k.MaxT-k.MinT)/int64(k.Samples-1))
			x.Samples = max(x.Samples, int(min(length/between, math.MaxInt32-1))+1)
		}
	}
	return x
}
