package serve

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// series is one series to send: the chunks of series i of sel, under labels.
type series struct {
	labels labels.Labels
	sel    *selection.Selection
	i      int
}

// each calls send with every series of f that has a chunk in range, in the order of the
// labels that it is sent with.
func (f found) each(ctx context.Context, external labels.Labels, send func(series, []selection.Chunk) error) error {
	all, err := labelled(ctx, external, f.sel)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if chunks := s.sel.Overlapping(s.i, f.mint, f.maxt); len(chunks) > 0 {
			if err := send(s, chunks); err != nil {
				return err
			}
		}
	}
	return nil
}

// labelled returns the series of sel with the external labels that they lack, in the order of all
// labels. Of two that become one, as one has an external label's very value and the other lacks
// the label, it makes one.
func labelled(ctx context.Context, external labels.Labels, sel *selection.Selection) ([]series, error) {
	watch := &parallel.Watch{Ctx: ctx}
	defer watch.Leave()
	external = external.WithoutEmpty()
	builder := labels.NewBuilder(labels.EmptyLabels())
	all := make([]series, sel.NumSeries())
	inOrder := true // {a="1"} comes before {a="1",b="1"}, but not with c="1"
	for i, l := range sel.Series() {
		if err := watch.Err(); err != nil {
			return nil, err
		}
		if !external.IsEmpty() {
			l = WithExternal(builder, l, external)
			inOrder = inOrder && (i == 0 || labels.Compare(all[i-1].labels, l) < 0)
		}
		all[i] = series{l, sel, i}
	}
	if inOrder {
		return all, nil
	}
	slices.SortStableFunc(all, parallel.Comparing(watch, func(a, b series) int { return labels.Compare(a.labels, b.labels) }))
	out := all[:0]
	for i := 0; i < len(all); {
		if err := watch.Err(); err != nil {
			return nil, err
		}
		j := i + 1
		for j < len(all) && labels.Equal(all[i].labels, all[j].labels) {
			j++
		}
		one := all[i]
		if j > i+1 {
			var err error
			if one, err = join(all[i:j]); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
		i = j
	}
	return out, nil
}

// WithExternal returns l and those of external that it lacks, by means of a builder.
func WithExternal(b *labels.Builder, l, external labels.Labels) labels.Labels {
	b.Reset(l)
	external.Range(func(x labels.Label) {
		if !l.Has(x.Name) {
			b.Set(x.Name, x.Value)
		}
	})
	return b.Labels()
}

// join returns the union of several series with the same labels.
func join(several []series) (series, error) {
	b := selection.NewBuilder(0)
	for _, s := range several {
		b.Series(s.labels)
		for _, c := range s.sel.Chunks(s.i) {
			if err := b.Chunk(c.Enc, c.MinT, c.MaxT, s.sel.Bytes(c)); err != nil {
				return series{}, err
			}
		}
	}
	sel, err := b.Finish()
	return series{several[0].labels, sel, 0}, err
}

// within decodes chunks without histograms of one. It returns the samples within the range of f, which lie
// in b.
func within(b *decode.Buffer, f found, one series, chunks []selection.Chunk) ([]int64, []float64, error) {
	b.Reset()
	if err := b.Read(one.sel, one.i, chunks, false, new(decode.Stats)); err != nil {
		one.sel.Discard()
		return nil, nil, err
	}
	lo, _ := slices.BinarySearch(b.Times, f.mint)
	hi, ok := slices.BinarySearch(b.Times, f.maxt)
	if ok {
		hi++
	}
	return b.Times[lo:max(lo, hi)], b.Values[lo:max(lo, hi)], nil
}
