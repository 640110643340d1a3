package gpuexec

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/parallel"
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
	Device    int // among those that the split was made for
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
	unsuited := func(p *Part) bool { return Suits(s.leafOf(p)) != "" }
	if len(s.Parts) < 2 || slices.ContainsFunc(s.Parts, unsuited) {
		return nil
	}
	return s
}

// cut spreads groups, or of a window alone series, over devices: in the order of their first series, so
// that neighbouring series, whose chunks lie in the same slabs, are on the same device, and by their
// numbers of series, so that they are there again when the series have more samples.
func cut(in *offload.Input, alone bool, speeds []float64) (all parts) {
	n, sizes, total, reach := len(in.GroupOf), make([]int, in.Groups), 0.0, 0.0
	for _, g := range in.GroupOf {
		sizes[g]++
	}
	for d, speed := range speeds {
		all, total = append(all, &Part{Device: d}), total+speed
	}
	local := make([]int32, in.Groups) // 1 + the number of a group in its part, 0 for none yet
	device := make([]int32, in.Groups)
	before, d := 0, -1 // series that are spread, and the device that has the last of them
	spread := func(size int) int32 {
		for middle := float64(before) + float64(size)/2; d < 0 || d < len(speeds)-1 && middle*total >= reach*float64(n); {
			d++
			reach += speeds[d]
		}
		before += size
		return int32(d)
	}
	for i, g := range in.GroupOf {
		if alone {
			device[g] = spread(1)
			local[g] = int32(min(1, len(all[device[g]].groups)))
		} else if local[g] == 0 {
			device[g] = spread(sizes[g])
		}
		p := all[device[g]]
		if local[g] == 0 {
			p.groups = append(p.groups, g)
			local[g] = int32(len(p.groups))
		}
		p.series, p.groupOf = append(p.series, int32(i)), append(p.groupOf, local[g]-1)
	}
	all = slices.DeleteFunc(all, func(p *Part) bool { return len(p.series) == 0 })
	parallel.For(len(all), func(k int) { all[k].Selection = in.Selection.Pick(all[k].series) })
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
	r := &Part{Device: p.Device, series: p.series[n:], groupOf: p.groupOf[n:], groups: p.groups}
	numbers := make([]int32, len(r.series))
	for i := range numbers {
		numbers[i] = int32(n + i)
	}
	if len(p.groups) == len(p.series) {
		r.groupOf, r.groups = make([]int32, len(r.series)), nil
		for i, g := range p.groupOf[n:] {
			r.groupOf[i], r.groups = int32(i), append(r.groups, p.groups[g])
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
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	of := *s
	of.ended = func() error { return cmp.Or(s.ended(), ctx.Err()) }
	r := &splitRun{Split: &of, compute: compute, stop: stop, rows: make([][]*offload.Rows, len(s.Parts)), done: make([]bool, len(s.Parts))}
	r.changed.L = &r.mu
	outs := make([]pipeline.Outcome, len(s.Parts))
	for k := range s.Parts {
		go func() {
			err := parallel.Rescue(func() (err error) {
				outs[k], err = r.part(ctx, k)
				return err
			})
			r.end(k, err)
		}()
	}
	for k := range s.Parts {
		for x := r.next(k); x != nil; x = r.next(k) {
			if err := parallel.Rescue(func() error { return consume(x) }); err != nil {
				r.fail(&pipeline.RequestError{Err: err})
			}
		}
	}
	if err = r.err; err != nil && s.ended() != nil {
		err = &pipeline.RequestError{Err: s.ended()}
	}
	if err == nil {
		o = s.join(outs)
	}
	o.Stages.Total = time.Since(start)
	return o, err
}

// splitRun is a split that is being computed.
type splitRun struct {
	*Split
	compute Compute
	stop    func() // ends all parts

	mu      sync.Mutex
	changed sync.Cond
	rows    [][]*offload.Rows // of each part, that wait to be consumed
	done    []bool            // parts that have ended
	err     error             // the first
}

// part computes a part: what one device leaves, the next one goes on with.
func (r *splitRun) part(ctx context.Context, k int) (o pipeline.Outcome, err error) {
	for p, again := r.Parts[k], true; ; {
		handed, rowsOf := 0, len(p.series)
		if _, ok := r.leaf.(*resample.Task); ok {
			rowsOf = len(p.groups)
		}
		o, again, err = r.compute(ctx, k, r.leafOf(p), func(x *offload.Rows) error {
			handed += max(len(x.Counts), len(x.Groups))
			for i, g := range x.Groups {
				x.Groups[i] = p.groups[g]
			}
			for i := range x.Values {
				if x.Release == nil {
					x.Values[i] = slices.Clone(x.Values[i])
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.rows[k] = append(r.rows[k], x)
			r.changed.Signal()
			return nil
		})
		switch {
		case err == nil || !again || r.ended() != nil:
			return o, err
		case handed == rowsOf:
			return pipeline.Outcome{}, nil
		case handed > 0:
			p = p.rest(handed)
		}
	}
}

// next waits for the next rows of a part, and returns nil behind its last. Once a part has failed, rows
// are let go of.
func (r *splitRun) next(k int) *offload.Rows {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for len(r.rows[k]) == 0 && !r.done[k] {
			r.changed.Wait()
		}
		if len(r.rows[k]) == 0 {
			return nil
		}
		x := r.rows[k][0]
		r.rows[k] = r.rows[k][1:]
		if r.err == nil {
			return x
		}
		if x.Release != nil {
			x.Release()
		}
	}
}

// end says that a part has ended, with an error or nil.
func (r *splitRun) end(k int, err error) {
	if err != nil {
		r.fail(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[k] = true
	r.changed.Signal()
}

// fail ends all parts, with the first error.
func (r *splitRun) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = cmp.Or(r.err, err)
	r.stop()
}

// join makes of the outcomes of all parts that of the leaf.
func (s *Split) join(outs []pipeline.Outcome) (o pipeline.Outcome) {
	for k := range outs {
		p := &outs[k]
		o.Work.Series, o.Work.Chunks = o.Work.Series+p.Work.Series, o.Work.Chunks+p.Work.Chunks
		o.Work.Samples, o.Work.Bytes, o.Runs = o.Work.Samples+p.Work.Samples, o.Work.Bytes+p.Work.Bytes, o.Runs+p.Runs
		o.Stages.Beside(&p.Stages)
	}
	if l, ok := s.leaf.(*cpuexec.Leaf); ok && l.Aggregate != nil {
		s.results(l, outs, &o.Results)
	}
	return o
}

// results puts the results of the parts of an aggregation in the order of the leaf's series and groups.
func (s *Split) results(l *cpuexec.Leaf, outs []pipeline.Outcome, to *offload.Results) {
	steps, n, first := l.Grid.Steps, len(l.GroupOf), make([]int, l.Groups+1) // the first value of each group
	for g := range l.Groups {
		room := 1
		if l.Rooms != nil {
			room = l.Rooms[g]
		}
		first[g+1] = first[g] + room*steps
	}
	to.Counts, to.Kept, to.Values = make([]offload.SeriesCounts, n), make([][]uint32, len(l.Maps)), make([]float64, first[l.Groups])
	if l.Rooms != nil {
		to.Series, to.Filled = make([]int32, len(to.Values)), make([]int32, l.Groups*steps)
	}
	for m, of := range l.Maps {
		if of.Filters() {
			to.Kept[m] = make([]uint32, n)
		}
	}
	to.All, to.Fresh = slices.Clone(outs[0].Results.All), slices.Clone(outs[0].Results.Fresh)
	for k := range outs[1:] {
		for i := range to.All {
			to.All[i] += outs[k+1].Results.All[i]
			to.Fresh[i] += outs[k+1].Results.Fresh[i]
		}
	}
	parallel.For(len(outs), func(k int) {
		p, x, at := s.Parts[k], &outs[k].Results, 0
		for i, series := range p.series {
			to.Counts[series] = x.Counts[i]
			for m := range to.Kept {
				if to.Kept[m] != nil {
					to.Kept[m][series] = x.Kept[m][i]
				}
			}
		}
		for i, g := range p.groups {
			begin, size := first[g], first[g+1]-first[g]
			copy(to.Values[begin:begin+size], x.Values[at:])
			if l.Rooms != nil {
				for e, series := range x.Series[at : at+size] {
					to.Series[begin+e] = p.series[series]
				}
				copy(to.Filled[int(g)*steps:(int(g)+1)*steps], x.Filled[i*steps:])
			}
			at += size
		}
	})
}
