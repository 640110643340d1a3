package gpuexec

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
)

// Split is a leaf that is cut into parts, each a leaf of its own, for several devices. Of a window alone a
// part is some neighbouring series. Otherwise it is whole groups: the values of a group are added in the
// order of its series, on one device, so that the bits are those of one device.
//
//	series   0 1 2 3 4 5 6 7        part 0: series 0 1 3 4, groups a b
//	group    a b c a b c c d   ──►  part 1: series 2 5 6 7, groups c d
type Split struct {
	Parts []*Part
	leaf  offload.Leaf
	ended func() error
}

// Part is the part of a leaf that one device computes.
type Part struct {
	Device    int // its number among the devices of the split
	Selection *selection.Selection
	series    []int32 // their numbers in the leaf
	groupOf   []int32 // the group of each, by its number in the part
	groups    []int32 // their numbers in the leaf
}

// parts are a selection's, which are kept with it so that layouts and what is on devices are found again.
type parts []*Part

// partsKey is what parts depend on besides the selection.
type partsKey struct {
	groupOf *int32
	alone   bool
	speeds  string
}

// SizeBytes implements selection.Sized.
func (ps parts) SizeBytes() (n int64) {
	for _, p := range ps {
		// The tables of the selection, and those of a layout.
		n += int64(unsafe.Sizeof(selection.Chunk{}))*int64(p.Selection.NumChunks()) + 48*int64(len(p.series))
	}
	return n
}

// NewSplit cuts a leaf into parts for devices, each as long as its device is fast. It returns nil where
// there are no two parts, or one of them does not suit a GPU.
func NewSplit(l offload.Leaf, speeds []float64) *Split {
	in := l.In()
	q, _ := l.(*cpuexec.Leaf)
	alone := q != nil && q.Aggregate == nil
	if len(speeds) < 2 || in.Windows == 0 || len(in.GroupOf) < 2 || in.Groups < 2 && !alone {
		return nil
	}
	key := partsKey{&in.GroupOf[0], alone, fmt.Sprint(speeds)}
	s := &Split{leaf: l, ended: in.Ended, Parts: selection.Note(in.Selection.Notes, key, func() parts { return cut(in, alone, speeds) })}
	if len(s.Parts) < 2 || slices.ContainsFunc(s.Parts, func(p *Part) bool { return Suits(s.leafOf(p)) != "" }) {
		return nil
	}
	return s
}

// cut spreads groups, or of a window alone series, over devices: in the order of their first series, so
// that neighbouring series, whose chunks lie in the same slabs, are on the same device, and by their
// numbers of series, so that they are there again when the series have more samples.
func cut(in *offload.Input, alone bool, speeds []float64) (all parts) {
	n, of, groups, total := len(in.GroupOf), in.GroupOf, in.Groups, 0.0
	if alone {
		of, groups = make([]int32, n), n
		for i := range of {
			of[i] = int32(i)
		}
	}
	sizes, device, local := make([]int, groups), make([]int, groups), make([]int, groups) // local counts from 1
	for _, g := range of {
		sizes[g]++
	}
	for d, speed := range speeds {
		all, total = append(all, &Part{Device: d}), total+speed
	}
	d, before, reach := 0, 0, speeds[0] // series of the groups so far; speeds of the devices up to d
	for i, g := range of {
		if local[g] == 0 {
			for middle := float64(before) + float64(sizes[g])/2; d < len(speeds)-1 && middle*total >= reach*float64(n); reach += speeds[d] {
				d++
			}
			before += sizes[g]
			all[d].groups = append(all[d].groups, g)
			device[g], local[g] = d, len(all[d].groups)
		}
		p := all[device[g]]
		p.series, p.groupOf = append(p.series, int32(i)), append(p.groupOf, int32(local[g]-1))
	}
	all = slices.DeleteFunc(all, func(p *Part) bool { return len(p.series) == 0 })
	parallel.For(len(all), func(k int) {
		p := all[k]
		if p.Selection = in.Selection.Pick(p.series); alone {
			p.groupOf, p.groups = in.GroupOf[:len(p.series)], []int32{0}
		}
	})
	return all
}

// Share is the share, from 0 to 1, of the leaf's series that a part has.
func (s *Split) Share(p *Part) float64 {
	return float64(len(p.series)) / float64(len(s.leaf.In().GroupOf))
}

// leafOf is the leaf of a part.
func (s *Split) leafOf(p *Part) offload.Leaf {
	in := *s.leaf.In()
	in.Selection, in.GroupOf, in.Groups, in.Ended = p.Selection, p.groupOf, len(p.groups), s.ended
	if t, ok := s.leaf.(*resample.Task); ok {
		return &resample.Task{Plan: t.Plan, Input: in}
	}
	whole := s.leaf.(*cpuexec.Leaf)
	l := *whole
	l.Input, l.Rooms = in, nil
	for _, g := range p.groups[:min(len(whole.Rooms), len(p.groups))] {
		l.Rooms = append(l.Rooms, whole.Rooms[g])
	}
	return &l
}

// rest is a part without its first n series, whose rows are there. Their groups are one, or one each.
func (p *Part) rest(n int) *Part {
	r, numbers := &Part{Device: p.Device, series: p.series[n:], groupOf: p.groupOf[n:], groups: p.groups}, make([]int32, len(p.series)-n)
	for i := range numbers {
		numbers[i] = int32(n + i)
	}
	if len(p.groups) == len(p.series) {
		r.groupOf, r.groups = make([]int32, len(numbers)), make([]int32, len(numbers))
		for i, g := range p.groupOf[n:] {
			r.groupOf[i], r.groups[i] = int32(i), p.groups[g]
		}
	}
	r.Selection = p.Selection.Pick(numbers)
	return r
}

// Compute has a device compute a part's leaf. It reports whether another device may succeed where that
// one has failed, which it is asked for next.
type Compute func(ctx context.Context, part int, l offload.Leaf, consume func(*offload.Rows) error) (o pipeline.Outcome, again bool, err error)

// Evaluate computes the parts at once, and makes of them what one device would make of the leaf. Rows go
// to consume part by part, in the caller's goroutine; those of later parts wait in memory. An error of
// one part ends the others. Errors are as of pipeline.Machine.Evaluate.
func (s *Split) Evaluate(ctx context.Context, compute Compute, consume func(*offload.Rows) error) (o pipeline.Outcome, err error) {
	start := time.Now()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	of := *s
	of.ended = func() error { return cmp.Or(s.ended(), ctx.Err()) }
	outs, rows := make([]pipeline.Outcome, len(s.Parts)), make([]chan *offload.Rows, len(s.Parts))
	for k, p := range s.Parts {
		rows[k] = make(chan *offload.Rows, len(p.series)/layout.Lanes+8) // all, so that no device waits
		go func() {
			defer close(rows[k])
			if err := parallel.Rescue(func() error { return of.part(ctx, k, compute, rows[k], &outs[k]) }); err != nil {
				stop(err)
			}
		}()
	}
	for _, of := range rows {
		for x := range of {
			if ctx.Err() == nil {
				if err := parallel.Rescue(func() error { return consume(x) }); err != nil {
					stop(&pipeline.RequestError{Err: err})
				}
			} else if x.Release != nil {
				x.Release()
			}
		}
	}
	if err = context.Cause(ctx); err == nil {
		o = s.join(outs)
	} else if ended := s.ended(); ended != nil {
		err = &pipeline.RequestError{Err: ended}
	}
	o.Stages.Total = time.Since(start)
	return o, err
}

// part computes a part: what one device leaves, the next one goes on with.
func (s *Split) part(ctx context.Context, k int, compute Compute, rows chan<- *offload.Rows, to *pipeline.Outcome) error {
	for p := s.Parts[k]; ; {
		handed := 0 // groups, or of a window alone series
		o, again, err := compute(ctx, k, s.leafOf(p), func(x *offload.Rows) error {
			handed += max(len(x.Counts), len(x.Groups))
			for i, g := range x.Groups {
				x.Groups[i] = p.groups[g]
			}
			for i := range x.Values {
				if x.Release == nil {
					x.Values[i] = slices.Clone(x.Values[i])
				}
			}
			rows <- x
			return nil
		})
		switch _, request := s.leaf.(*resample.Task); {
		case err == nil || !again || s.ended() != nil:
			*to = o
			return err
		case handed == len(p.series) || request && handed == len(p.groups):
			return nil
		case handed > 0:
			p = p.rest(handed)
		}
	}
}

// join makes of the outcomes of all parts that of the leaf.
func (s *Split) join(outs []pipeline.Outcome) (o pipeline.Outcome) {
	for k := range outs {
		p, w := &outs[k], &outs[k].Work
		o.Work = plan.Work{
			Series: o.Work.Series + w.Series, Chunks: o.Work.Chunks + w.Chunks, Samples: o.Work.Samples + w.Samples, Bytes: o.Work.Bytes + w.Bytes,
		}
		o.Runs += p.Runs
		o.Stages.Beside(&p.Stages)
	}
	if l, ok := s.leaf.(*cpuexec.Leaf); ok && l.Aggregate != nil {
		s.results(l, outs, &o.Results)
	}
	return o
}

// results puts the results of the parts of an aggregation in the order of the leaf's series and groups.
func (s *Split) results(l *cpuexec.Leaf, outs []pipeline.Outcome, to *offload.Results) {
	n, cells, values := len(l.GroupOf), []int{0}, []int{0} // where those of each group begin, and the last ones end
	for g := range l.Groups {
		cells, values = append(cells, cells[g]+l.Grid.Steps), append(values, values[g]+l.Grid.Steps)
		if l.Rooms != nil {
			values[g+1] = values[g] + l.Rooms[g]*l.Grid.Steps
		}
	}
	takeMemory(to, n)
	to.Kept, to.Values = make([][]uint32, len(l.Maps)), make([]float64, values[l.Groups])
	for m := range to.Kept {
		if outs[0].Results.Kept[m] != nil {
			to.Kept[m] = make([]uint32, n)
		}
	}
	if l.Rooms != nil {
		to.Series, to.Filled = make([]int32, len(to.Values)), make([]int32, cells[l.Groups])
	}
	to.All, to.Fresh = make([]int64, len(outs[0].Results.All)), make([]int64, len(outs[0].Results.All))
	for k := range outs {
		for i := range to.All {
			to.All[i] += outs[k].Results.All[i]
			to.Fresh[i] += outs[k].Results.Fresh[i]
		}
	}
	parallel.For(len(s.Parts), func(k int) {
		p, x := s.Parts[k], &outs[k].Results
		for i, series := range p.series {
			to.Counts[series] = x.Counts[i]
		}
		for m := range x.Kept {
			for i, kept := range x.Kept[m] {
				to.Kept[m][p.series[i]] = kept
			}
		}
		byGroup(p, to.Values, x.Values, values)
		if l.Rooms != nil {
			for i, series := range x.Series {
				x.Series[i] = p.series[series]
			}
			byGroup(p, to.Series, x.Series, values)
			byGroup(p, to.Filled, x.Filled, cells)
		}
		x.Release()
	})
}

// byGroup copies what a part has of its groups to where that of each group begins.
func byGroup[T any](p *Part, to, from []T, begins []int) {
	for _, g := range p.groups {
		from = from[copy(to[begins[g]:begins[g+1]], from):]
	}
}
