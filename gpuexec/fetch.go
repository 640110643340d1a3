package gpuexec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// fetchAll waits for all batches and fetches what came of them: the values of each group and
// step, the counts of each place, and the fault word. They are the job's as long as it has its
// workspace.
func (j *job) fetchAll() (out []byte, err error) {
	err = j.x.dev.Do(func(c *cuda.Context) error {
		s := j.workspace.stream
		if err := c.WaitEvent(s, j.last); err != nil {
			return err
		}
		if err := c.Record(j.workspace.last, s); err != nil {
			return err
		}
		if err := j.product.end(j, c, s); err != nil {
			return err
		}
		if out, err = j.copyOut(c, j.workspace.at+cuda.Pointer(j.outcome), j.size-j.outcome); err != nil {
			return err
		}
		took, err := c.Elapsed(j.workspace.last, j.workspace.ended)
		j.stages.Result = ms(took)
		return err
	})
	if err == nil {
		err = j.corrupt(view[uint64](j, out, j.fault)[0])
	}
	return out, err
}

// drain waits for the batches under way, in their order.
func (j *job) drain() error {
	slots := slices.DeleteFunc(slices.Clone(j.workspace.slots), func(s *slot) bool { return !s.busy })
	slices.SortFunc(slots, func(a, b *slot) int { return a.batch.Number - b.batch.Number })
	for _, s := range slots {
		if err := j.empty(s); err != nil {
			return err
		}
	}
	return nil
}

// copyOut copies n bytes from the device to the staging memory, which nothing uses any
// more once the first copy begins, and on from there if it is too small.
func (j *job) copyOut(c *cuda.Context, at cuda.Pointer, n int) (out []byte, err error) {
	s, staging := j.workspace.stream, j.workspace.slots[0].staging
	if n > len(staging) {
		out = make([]byte, 0, n)
	}
	for n > 0 {
		part := staging[:min(len(staging), n)]
		if err := c.CopyOut(part, at, s); err != nil {
			return nil, err
		}
		if err := c.Record(j.workspace.ended, s); err != nil {
			return nil, err
		}
		if err := c.Wait(s); err != nil {
			return nil, err
		}
		if out == nil {
			return part, nil
		}
		out = append(out, part...)
		n, at = n-len(part), at+cuda.Pointer(len(part))
	}
	return out, nil
}

// end waits until nothing of the job is under way any more, and lets go of what it
// used.
func (j *job) end(failed bool) error {
	var errs []error
	_ = j.product.wait() // it failed for another reason
	if failed {
		errs = append(errs, j.x.dev.Do(func(c *cuda.Context) error {
			var errs []error
			for _, s := range append([]cuda.Stream{j.x.feeder.Stream, j.workspace.stream}, j.streams()...) {
				errs = append(errs, c.Wait(s))
			}
			return errors.Join(errs...)
		}))
	}
	for _, s := range j.workspace.slots {
		if !failed {
			errs = append(errs, j.empty(s))
		}
		if s.batch != nil {
			j.x.lender.GiveBack(s.batch.lent, errors.Join(errs...) == nil)
		}
		j.x.store.Unpin(s.pinned)
		s.free()
	}
	j.stages.CopiedBytes += j.described
	j.timing.finish(j.stages)
	return errors.Join(errs...)
}

func (j *job) streams() (all []cuda.Stream) {
	for _, s := range j.workspace.slots {
		all = append(all, s.stream)
	}
	return all
}

// corrupt is the error for the first of the corrupt chunks, if there is one, or for
// what no kernel can tell.
func (j *job) corrupt(fault uint64) error {
	if fault == abi.NoFault {
		return nil
	}
	if fault == abi.MixedZeros {
		return &Unsuited{Reason: "a quantile depends on how zeros of either sign are sorted"}
	}
	j.l.Selection.Discard()
	b, err := j.batch(int(fault >> 40))
	if err != nil {
		return err
	}
	series, c := j.y.Locate(b, int(fault>>8&(1<<32-1)))
	status := abi.Status(fault & 255)
	err = status.Err()
	if status == abi.Outside {
		err = fmt.Errorf("%w of %d to %d ms", err, c.MinT, c.MaxT)
	}
	return &selection.CorruptError{Series: j.l.Selection.Labels(series), MinT: c.MinT, Err: err}
}

// The device counts samples and marks absent values as the cores read them.
var (
	_ = cpuexec.SeriesCounts(abi.SeriesCounts{})
	_ = [1]int{}[abi.Absent-cpuexec.Absent]
)

// finish is the outcome of what was fetched, which is nothing for rows.
func (j *job) finish(fetched []byte) (o cpuexec.Outcome) {
	o.Work = plan.Work{Chunks: j.total.Chunks, Samples: j.total.Samples, Bytes: int64(j.total.Encoded)}
	if fetched == nil {
		return o
	}
	r := &o.Results
	r.Counts = bySeries(j, view[cpuexec.SeriesCounts](j, fetched, j.counts))
	kept := view[uint32](j, fetched, j.kept)
	r.Kept = make([][]uint32, len(j.l.Maps))
	for m, n := range j.l.Maps {
		if n.Filters() {
			r.Kept[m] = bySeries(j, kept[m*j.places():])
		}
	}
	reads := slices.Clone(view[int64](j, fetched, j.reads))
	r.All, r.Fresh = reads[:j.l.Grid.Steps], reads[j.l.Grid.Steps:]
	j.product.results(j, fetched, r)
	return o
}

// bySeries copies what is at the place of each series, in the order of the series.
func bySeries[T any](j *job, at []T) []T {
	all := make([]T, len(j.y.Places))
	const block = 8192
	parallel.For((len(all)+block-1)/block, func(k int) {
		for i := k * block; i < min((k+1)*block, len(all)); i++ {
			all[i] = at[j.y.Places[i]]
		}
	})
	return all
}

// view is a section among what was fetched.
func view[T any](j *job, fetched []byte, s layout.Section) []T {
	return layout.As[T](fetched, layout.Section{At: s.At - j.outcome, Size: s.Size})
}
