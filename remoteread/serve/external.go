package serve

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/yield"
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
	ext := newExternal(external)
	sendIfAny := func(s series) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if chunks := s.sel.Overlapping(s.i, f.mint, f.maxt); len(chunks) > 0 {
			return send(s, chunks)
		}
		return nil
	}
	if ext.keepsOrder(ctx, f.sel.Series()) {
		for i, l := range f.sel.Series() {
			if err := sendIfAny(series{ext.addTo(l), f.sel, i}); err != nil {
				return err
			}
		}
		return nil
	}
	all, err := ext.sorted(ctx, f.sel)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := sendIfAny(s); err != nil {
			return err
		}
	}
	return nil
}

// external adds external labels to series.
type external struct {
	labels  labels.Labels
	builder *labels.Builder
}

func newExternal(l labels.Labels) *external {
	return &external{l.WithoutEmpty(), labels.NewBuilder(labels.EmptyLabels())}
}

// addTo returns l with the external labels that it lacks.
func (e *external) addTo(l labels.Labels) labels.Labels {
	if e.labels.IsEmpty() {
		return l
	}
	e.builder.Reset(l)
	e.labels.Range(func(x labels.Label) {
		if !l.Has(x.Name) {
			e.builder.Set(x.Name, x.Value)
		}
	})
	return e.builder.Labels()
}

// keepsOrder reports whether series, which are in order, are so with external labels, and
// no two of them become one; false once ctx has ended. {a="1"} comes before {a="1",b="1"}, but not
// with c="1".
func (e *external) keepsOrder(ctx context.Context, series []labels.Labels) bool {
	if e.labels.IsEmpty() {
		return true
	}
	watch := yield.Watch{Ctx: ctx}
	defer watch.Leave()
	var last labels.Labels
	for i, l := range series {
		l = e.addTo(l)
		if i > 0 && labels.Compare(last, l) >= 0 || watch.Err() != nil {
			return false
		}
		last = l
	}
	return true
}

// sorted returns the series of sel in the order of their labels with the external ones.
// Of two that become one, as one has an external label's very value and the other lacks
// the label, it makes one.
func (e *external) sorted(ctx context.Context, sel *selection.Selection) ([]series, error) {
	watch := &yield.Watch{Ctx: ctx}
	defer watch.Leave()
	all := make([]series, sel.NumSeries())
	for i, l := range sel.Series() {
		if err := watch.Err(); err != nil {
			return nil, err
		}
		all[i] = series{e.addTo(l), sel, i}
	}
	slices.SortStableFunc(all, yield.Comparing(watch, func(a, b series) int { return labels.Compare(a.labels, b.labels) }))
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
