package selection

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Merge returns the union of parts, selections of different sources that may have
// samples of the same series. Of samples of a series at one time the part that is
// named first has its way, whatever time range the parts are for. Prometheus's
// fanout keeps one of them at random. No chunk bytes are copied except where
// different chunks of a series overlap and each has samples that the others have
// not: those are merged into new ones. It fails with ctx's error soon after ctx has ended.
func Merge(ctx context.Context, parts ...*Selection) (*Selection, error) {
	parts = present(parts)
	kept := int64(math.MaxInt64)
	for i, p := range parts {
		kept = min(kept, p.kept)
		parts[i] = p.From(nil) // another source may have something next time
	}
	return union(ctx, parts, kept, (*Selection).layer)
}

// layer is a removeOverlaps that merges what different sources have of a series.
func (s *Selection) layer(l labels.Labels, cs []Chunk, ends []int, merged *Builder) ([]Chunk, error) {
	lists := make([][]Chunk, len(ends))
	start := 0
	for k, end := range ends {
		lists[k] = slices.Clone(cs[start:end])
		start = end
	}
	for k := range lists {
		for j := range k {
			lists[j], lists[k] = s.withoutCopies(lists[j], lists[k], len(lists) > 2)
		}
	}
	var out []Chunk
	run := make([][]Chunk, len(lists))
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
		union, err := s.mergeLayers(l, run, merged)
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
func (s *Selection) withoutCopies(a, b []Chunk, others bool) (restA, restB []Chunk) {
	restA, restB = a[:0], b[:0]
	for len(a) > 0 && len(b) > 0 {
		x, y := a[0], b[0]
		switch {
		case x.MinT < y.MinT:
			restA, a = append(restA, x), a[1:]
		case x.MinT > y.MinT:
			restB, b = append(restB, y), b[1:]
		case s.grewInto(y, x):
			b = b[1:]
		case !others && s.grewInto(x, y):
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
func takeRun(lists, run [][]Chunk) (n int) {
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
// else they are new ones, added to merged.
func (s *Selection) mergeLayers(l labels.Labels, run [][]Chunk, merged *Builder) ([]Chunk, error) {
	var lists [][]Chunk
	for _, cs := range run {
		if len(cs) > 0 {
			lists = append(lists, cs)
		}
	}
	if k, ok, err := s.layers(l, lists, &merged.watch).only(); ok || err != nil {
		return lists[k], err
	}
	return s.encodeInto(merged, l, s.layers(l, lists, &merged.watch))
}

// layers returns the samples of the chunks in lists.
func (s *Selection) layers(l labels.Labels, lists [][]Chunk, w *watch) *layers {
	it := &layers{watch: w, all: make([]layer, len(lists))}
	for k, cs := range lists {
		it.all[k].Iterator = (&series{sel: s, labels: l, chunks: cs, mint: math.MinInt64, maxt: math.MaxInt64}).Iterator(nil)
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
	watch             *watch
	began             bool
	at                int  // index of the present sample's layer
	follows           bool // whether it follows the one before it within its layer
	err               error
}

func (it *layers) Next() chunkenc.ValueType {
	if it.err != nil {
		return chunkenc.ValNone
	}
	if it.err = it.watch.err(); it.err != nil {
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
