package samples

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection/slab"
)

// Separate sorts cs, chunks of series l in slabs, and removes overlaps: a chunk that is
// the same as, or an earlier state of, another is dropped; others that overlap
// are decoded, merged sample by sample and encoded again into w, whose context ends
// all of it.
func (w *Writer) Separate(l labels.Labels, slabs slab.Slabs, cs []slab.Chunk) ([]slab.Chunk, error) {
	slices.SortStableFunc(cs, parallel.Comparing(&w.Watch, func(a, b slab.Chunk) int {
		return cmp.Or(cmp.Compare(a.MinT, b.MinT), cmp.Compare(a.MaxT, b.MaxT))
	}))
	if err := w.Watch.Now(); err != nil {
		return nil, err
	}
	kept := make([]slab.Chunk, 0, len(cs))
	overlap := false
	for _, c := range cs {
		if err := w.Watch.Err(); err != nil {
			return nil, err
		}
		if n := len(kept); n > 0 && c.MinT <= kept[n-1].MaxT {
			if grewInto(slabs, kept[n-1], c) {
				kept[n-1] = c
				continue
			}
			overlap = true
		}
		kept = append(kept, c)
	}
	if !overlap {
		return kept, nil
	}
	return w.mergeOverlaps(l, slabs, kept)
}

// grewInto reports whether b holds all of a: equal bytes, or the same bit
// stream written on. Of the last byte of a only the leading bits may be in use,
// so it is compared by decoding nothing: the samples before it decide.
func grewInto(slabs slab.Slabs, a, b slab.Chunk) bool {
	if a.Enc != b.Enc || a.MinT != b.MinT || a.Samples > b.Samples || a.Len > b.Len {
		return false
	}
	x, y := slabs.Bytes(a), slabs.Bytes(b)
	if bytes.Equal(x, y) {
		return true
	}
	if a.Enc != chunkenc.EncXOR || a.Samples == b.Samples || len(x) < 4 {
		return false
	}
	last := len(x) - 1
	return bytes.Equal(x[2:last], y[2:last]) && x[last]&^y[last] == 0
}

// mergeOverlaps merges runs of overlapping chunks of one series into new ones, which it writes, as
// Prometheus merges overlapping blocks: of samples with equal timestamps one is kept.
func (w *Writer) mergeOverlaps(l labels.Labels, slabs slab.Slabs, cs []slab.Chunk) ([]slab.Chunk, error) {
	var out []slab.Chunk
	for i := 0; i < len(cs); {
		if err := w.Watch.Err(); err != nil {
			return nil, err
		}
		j, end := i+1, cs[i].MaxT
		for j < len(cs) && cs[j].MinT <= end {
			end = max(end, cs[j].MaxT)
			j++
		}
		if j == i+1 {
			out = append(out, cs[i])
			i = j
			continue
		}
		each := make([]chunkenc.Iterator, 0, j-i)
		for ; i < j; i++ {
			of := whole(l, slabs, cs[i:i+1])
			each = append(each, of.Iterator(nil))
		}
		union, err := w.encode(l, storage.ChainSampleIteratorFromIterators(nil, each))
		if err != nil {
			return nil, fmt.Errorf("merging %d overlapping chunks: %w", len(each), err)
		}
		out = append(out, union...)
	}
	return out, nil
}

// encode encodes samples of series l and returns the chunks of them.
func (w *Writer) encode(l labels.Labels, it chunkenc.Iterator) ([]slab.Chunk, error) {
	w.Labels = l
	w.Chunks = nil
	err := w.Samples(it)
	return w.Chunks, err
}

// Layer merges what different sources have of series l: cs are chunks in slabs, those of the first
// source end before ends[0], of the second before ends[1], and so on, each in time order without
// overlaps. Of samples at one time the source named first has its way. What it encodes anew goes
// into w, whose context ends all of it.
func (w *Writer) Layer(l labels.Labels, slabs slab.Slabs, cs []slab.Chunk, ends []int) ([]slab.Chunk, error) {
	lists := make([][]slab.Chunk, len(ends))
	start := 0
	for k, end := range ends {
		lists[k] = slices.Clone(cs[start:end])
		start = end
	}
	for k := range lists {
		for j := range k {
			lists[j], lists[k] = withoutCopies(slabs, lists[j], lists[k], len(lists) > 2)
		}
	}
	var out []slab.Chunk
	run := make([][]slab.Chunk, len(lists))
	for {
		n := takeRun(lists, run)
		switch {
		case n == 0:
			return out, nil
		case n == 1:
			for _, r := range run {
				out = append(out, r...)
			}
			continue
		}
		union, err := w.mergeLayers(l, slabs, run)
		if err != nil {
			return nil, fmt.Errorf("merging %d overlapping chunks: %w", n, err)
		}
		out = append(out, union...)
	}
}

// withoutCopies returns a and b, each in time order, without the chunks of b that a
// has, too, or has with more samples written to them. Where there are no others,
// those of a that b has with more go as well; another source's samples might
// otherwise come between theirs.
func withoutCopies(slabs slab.Slabs, a, b []slab.Chunk, others bool) (restA, restB []slab.Chunk) {
	restA, restB = a[:0], b[:0]
	for len(a) > 0 && len(b) > 0 {
		x, y := a[0], b[0]
		switch {
		case x.MinT < y.MinT:
			restA, a = append(restA, x), a[1:]
		case x.MinT > y.MinT:
			restB, b = append(restB, y), b[1:]
		case grewInto(slabs, y, x):
			b = b[1:]
		case !others && grewInto(slabs, x, y):
			a = a[1:]
		default:
			restA, a = append(restA, x), a[1:]
			restB, b = append(restB, y), b[1:]
		}
	}
	return append(restA, a...), append(restB, b...)
}

// takeRun moves from lists, each in time order and without overlaps, to run the
// earliest chunk and all that overlap it, directly or through others, and returns
// their number.
func takeRun(lists, run [][]slab.Chunk) (n int) {
	first := -1
	for k, cs := range lists {
		run[k] = cs[:0]
		if len(cs) > 0 && (first < 0 || cs[0].MinT < lists[first][0].MinT) {
			first = k
		}
	}
	if first < 0 {
		return 0
	}
	for end, more := lists[first][0].MinT, true; more; {
		more = false
		for k, cs := range lists {
			i := len(run[k])
			for i < len(cs) && cs[i].MinT <= end {
				end = max(end, cs[i].MaxT)
				i++
				n++
				more = true
			}
			run[k] = cs[:i]
		}
	}
	for k := range lists {
		lists[k] = lists[k][len(run[k]):]
	}
	return n
}

// mergeLayers merges chunks of one series, those of each source in a list of its
// own. Where one source has all samples that count, its chunks are the result;
// else they are new ones.
func (w *Writer) mergeLayers(l labels.Labels, slabs slab.Slabs, run [][]slab.Chunk) ([]slab.Chunk, error) {
	lists := slices.DeleteFunc(slices.Clone(run), func(cs []slab.Chunk) bool { return len(cs) == 0 })
	if k, ok, err := w.layers(l, slabs, lists).only(); ok || err != nil {
		return lists[k], err
	}
	return w.encode(l, w.layers(l, slabs, lists))
}

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
	watch             *parallel.Watch
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
