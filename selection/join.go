package selection

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection/samples"
	"github.com/promwarp/promwarp/selection/slab"
)

// Join returns the union of parts, selections of one source: a series in several
// of them appears once, with its chunks in time order. Chunks that appear more
// than once, as they do in neighbouring time ranges, are kept once; no chunk bytes
// are copied except where different chunks overlap, which are merged into new ones. It fails
// with ctx's error soon after ctx has ended.
func Join(ctx context.Context, parts ...*Selection) (*Selection, error) {
	parts = present(parts)
	kept := int64(0)
	for _, p := range parts {
		kept = max(kept, p.KeptUntil)
	}
	// More than half as much again had better be one table.
	if len(parts) == 2 && parts[1].memos == nil && 2*parts[1].NumChunks() <= parts[0].NumChunks() {
		if out, err := extend(ctx, parts[0], parts[1], kept); out != nil || err != nil {
			return out, err
		}
	}
	return union(ctx, parts, kept, separate, false)
}

// separate is a Rule for parts of one source.
func separate(w *samples.Writer, l labels.Labels, slabs slab.Slabs, cs []Chunk, _ []int) ([]Chunk, error) {
	return w.Separate(l, slabs, cs)
}

// present returns the parts that hold something.
func present(parts []*Selection) []*Selection {
	return slices.DeleteFunc(slices.Clone(parts), func(p *Selection) bool { return p == nil || p.NumSeries() == 0 })
}

// Rule makes one list of the chunks cs of series l that several parts have: those of the first part end
// before ends[0], of the second before ends[1], and so on. What it encodes anew goes into w.
type Rule func(w *samples.Writer, l labels.Labels, slabs slab.Slabs, cs []Chunk, ends []int) ([]Chunk, error)

// union returns the union of parts, none of them empty, as what is kept until kept (ms). The rule is asked
// about series whose chunks are not in time order, or overlap, or about all series.
func union(ctx context.Context, parts []*Selection, kept int64, rule Rule, all bool) (*Selection, error) {
	switch {
	case len(parts) == 0:
		return Empty(), nil
	case len(parts) == 1 && !all:
		return parts[0], nil
	}
	out := Selection{KeptUntil: kept}
	for p, part := range parts {
		parts[p] = part.flat()
	}
	var renumber [][]uint32
	out.slabs, renumber = shareSlabs(parts)

	series, chunks := 0, 0
	for _, part := range parts {
		series = max(series, len(part.series))
		chunks += len(part.chunks)
	}
	out.series = make([]labels.Labels, 0, series)
	out.first = make([]uint32, 0, series+1)
	out.chunks = make([]Chunk, 0, chunks)

	merged := samples.NewWriter(ctx, len(out.slabs), 0)
	order := partsOrder{parts: parts, next: make([]int, len(parts))}
	ends := make([]int, 0, len(parts)) // of the chunks of each part that has the series
	overlapped := false
	for {
		if err := merged.Watch.Err(); err != nil {
			return nil, err
		}
		have := order.least()
		if len(have) == 0 {
			break
		}
		l := parts[have[0]].series[order.next[have[0]]]
		start := len(out.chunks)
		out.series = append(out.series, l)
		out.first = append(out.first, uint32(start))
		ends = ends[:0]
		var memo *Memo
		apart := true // whether chunks are in time order without overlaps, as those of each part are
		for _, p := range have {
			i := order.next[p]
			memo = cmp.Or(memo, parts[p].Memo(i))
			k := len(out.chunks)
			out.chunks = append(out.chunks, parts[p].Chunks(i)...)
			for j := k; j < len(out.chunks); j++ {
				out.chunks[j].Slab = renumber[p][out.chunks[j].Slab]
			}
			apart = apart && (k == start || out.chunks[k-1].MaxT < out.chunks[k].MinT)
			ends = append(ends, len(out.chunks)-start)
		}
		if !apart || all {
			overlapped = true
			cs, err := rule(merged, l, out.slabs, out.chunks[start:], ends)
			if err != nil {
				return nil, err
			}
			if out.changesKept(cs) {
				memo = nil // these very chunks will not be read again
			}
			out.chunks = append(out.chunks[:start], cs...)
			if len(cs) == 0 {
				out.series, out.first = out.series[:len(out.series)-1], out.first[:len(out.first)-1]
				continue
			}
		}
		out.keepMemo(memo)
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.slabs = append(out.slabs, merged.Slabs()...)
	if overlapped {
		return out.finish(), nil
	}
	for _, part := range parts {
		out.encodings |= part.encodings
		out.samples += part.samples
		out.data += part.data
	}
	return out.measure(), nil
}

// partsOrder goes through the series of several selections in label order. For each series it
// looks at all parts, of which nearly always most have it.
type partsOrder struct {
	parts []*Selection
	next  []int // number of the next series of each part
	have  []int // the parts that have the present series, ascending
}

// least returns the parts that have the least of the next series, or none at the end. It
// is valid until the next call, which goes on behind that series.
func (o *partsOrder) least() []int {
	for _, p := range o.have {
		o.next[p]++
	}
	o.have = o.have[:0]
	var least labels.Labels
	for p, part := range o.parts {
		if o.next[p] == len(part.series) {
			continue
		}
		l := part.series[o.next[p]]
		switch {
		case len(o.have) > 0 && labels.Equal(l, least): // as most are
			o.have = append(o.have, p)
		case len(o.have) == 0 || labels.Compare(l, least) < 0:
			o.have, least = append(o.have[:0], p), l
		}
	}
	return o.have
}

// shareSlabs returns the slabs of all parts, each once, and for each part which of those
// its own are.
func shareSlabs(parts []*Selection) (slabs slab.Slabs, renumber [][]uint32) {
	index := map[*Slab]uint32{}
	renumber = make([][]uint32, len(parts))
	for p, part := range parts {
		renumber[p] = make([]uint32, len(part.slabs))
		for i, s := range part.slabs {
			k, ok := index[s]
			if !ok {
				k = uint32(len(slabs))
				index[s] = k
				slabs = append(slabs, s)
			}
			renumber[p][i] = k
		}
	}
	return slabs, renumber
}

// normal reports whether series are sorted and unique, and chunks sorted and
// disjoint.
func (s *Selection) normal() bool {
	for i := range s.series {
		if i > 0 && labels.Compare(s.series[i-1], s.series[i]) >= 0 {
			return false
		}
		cs := s.Chunks(i)
		for k := 1; k < len(cs); k++ {
			if cs[k].MinT <= cs[k-1].MaxT {
				return false
			}
		}
		if len(cs) == 0 {
			return false
		}
	}
	return true
}

// normalise makes s normal. Series without a chunk are dropped.
func (s *Selection) normalise(ctx context.Context) error {
	order := make([]int, len(s.series))
	for i := range order {
		order[i] = i
	}
	merged := samples.NewWriter(ctx, len(s.slabs), 0)
	slices.SortStableFunc(order, parallel.Comparing(&merged.Watch, func(a, b int) int { return labels.Compare(s.series[a], s.series[b]) }))

	out := Selection{slabs: s.slabs, chunks: make([]Chunk, 0, len(s.chunks))}
	for k := 0; k < len(order); {
		if err := merged.Watch.Err(); err != nil {
			return err
		}
		l := s.series[order[k]]
		start := len(out.chunks)
		for ; k < len(order) && labels.Equal(s.series[order[k]], l); k++ {
			out.chunks = append(out.chunks, s.Chunks(order[k])...)
		}
		cs, err := merged.Separate(l, out.slabs, out.chunks[start:])
		if err != nil {
			return err
		}
		out.chunks = append(out.chunks[:start], cs...)
		if len(cs) > 0 {
			out.series = append(out.series, l)
			out.first = append(out.first, uint32(start))
		}
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.slabs = slices.Concat(out.slabs, merged.Slabs())
	*s = out
	return nil
}

// Merge returns the union of parts, selections of different sources that may have
// samples of the same series. Of samples of a series at one time the part that is
// named first has its way, whatever time range the parts are for. Prometheus's
// fanout keeps one of them at random. No chunk bytes are copied except where
// different chunks of a series overlap and each has samples that the others have
// not: those are merged into new ones. It fails with ctx's error soon after ctx has ended.
func Merge(ctx context.Context, parts ...*Selection) (*Selection, error) {
	return merge(ctx, (*samples.Writer).Layer, false, parts)
}

// MergeBy is like Merge, but a rule merges each series, and has to retain the order of time.
func MergeBy(ctx context.Context, rule Rule, parts ...*Selection) (*Selection, error) {
	return merge(ctx, rule, true, parts)
}

func merge(ctx context.Context, rule Rule, all bool, parts []*Selection) (*Selection, error) {
	parts = present(parts)
	kept := int64(math.MaxInt64)
	for i, p := range parts {
		kept = min(kept, p.KeptUntil)
		if p.Provenance != nil {
			one := *p
			one.Provenance = nil // another source may have something next time
			parts[i] = &one
		}
	}
	return union(ctx, parts, kept, rule, all)
}
