package samples

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/yield"
	"github.com/promwarp/promwarp/selection/slab"
)

// Separate sorts cs, chunks of series l in slabs, and removes overlaps: a chunk that is
// the same as, or an earlier state of, another is dropped; others that overlap
// are decoded, merged sample by sample and encoded again into w, whose context ends
// all of it.
func (w *Writer) Separate(l labels.Labels, slabs slab.Slabs, cs []slab.Chunk) ([]slab.Chunk, error) {
	slices.SortStableFunc(cs, yield.Comparing(&w.Watch, func(a, b slab.Chunk) int {
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

// mergeOverlaps merges runs of overlapping chunks of one series.
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
		union, err := w.mergeRun(l, slabs, cs[i:j])
		if err != nil {
			return nil, err
		}
		out = append(out, union...)
		i = j
	}
	return out, nil
}

// mergeRun merges chunks that overlap into new ones, which it writes, as Prometheus merges
// overlapping blocks: of samples with equal timestamps one is kept.
func (w *Writer) mergeRun(l labels.Labels, slabs slab.Slabs, run []slab.Chunk) ([]slab.Chunk, error) {
	each := make([]chunkenc.Iterator, len(run))
	for k := range run {
		of := whole(l, slabs, run[k:k+1])
		each[k] = of.Iterator(nil)
	}
	out, err := w.encode(l, storage.ChainSampleIteratorFromIterators(nil, each))
	if err != nil {
		return nil, fmt.Errorf("merging %d overlapping chunks: %w", len(run), err)
	}
	return out, nil
}

// encode encodes samples of series l and returns the chunks of them.
func (w *Writer) encode(l labels.Labels, it chunkenc.Iterator) ([]slab.Chunk, error) {
	w.Series(l)
	w.Chunks = nil
	err := w.Samples(it)
	return w.Chunks, err
}
