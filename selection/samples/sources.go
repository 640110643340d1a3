package samples

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection/slab"
)

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
	var lists [][]slab.Chunk
	for _, cs := range run {
		if len(cs) > 0 {
			lists = append(lists, cs)
		}
	}
	if k, ok, err := w.layers(l, slabs, lists).only(); ok || err != nil {
		return lists[k], err
	}
	return w.encode(l, w.layers(l, slabs, lists))
}
