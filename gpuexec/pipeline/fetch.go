package pipeline

import (
	"errors"
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/layout"
)

// fetchAll waits for all batches and fetches what came of them: what was taken behind FetchRest,
// and the fault word. It is the job's as long as it has its workspace.
func (j *Job) fetchAll() (out []byte, err error) {
	if j.returned != 0 {
		if err := errors.Join(j.drain(), j.wait()); err != nil {
			return nil, err
		}
	}
	err = j.Dev.Do(func(c *cuda.Context) error {
		s := j.Workspace.stream
		if err := c.WaitEvent(s, j.last); err != nil {
			return err
		}
		if err := c.Record(j.Workspace.last, s); err != nil {
			return err
		}
		if err := j.Program.End(c, s); err != nil {
			return err
		}
		if out, err = j.copyOut(c, j.Workspace.at+cuda.Pointer(j.outcome), j.size-j.outcome); err != nil {
			return err
		}
		took, err := c.Elapsed(j.Workspace.last, j.Workspace.ended)
		j.Stages.Result = ms(took)
		return err
	})
	if err == nil {
		err = j.Corrupt(View[uint64](j, out, j.Fault)[0])
	}
	return out, err
}

// drain waits for the batches under way, in order.
func (j *Job) drain() error {
	slots := slices.DeleteFunc(slices.Clone(j.Workspace.Slots), func(s *Slot) bool { return !s.busy })
	slices.SortFunc(slots, func(a, b *Slot) int { return a.Batch.Number - b.Batch.Number })
	for _, s := range slots {
		if err := j.empty(s); err != nil {
			return err
		}
	}
	return nil
}

// copyOut copies n bytes from the device to the staging memory, which nothing uses any
// more once the first copy begins, and on from there if it is too small.
func (j *Job) copyOut(c *cuda.Context, at cuda.Pointer, n int) (out []byte, err error) {
	s, staging := j.Workspace.stream, j.Workspace.Slots[0].Staging
	if n > len(staging) {
		out = make([]byte, 0, n)
	}
	for n > 0 {
		part := staging[:min(len(staging), n)]
		if err := c.CopyOut(part, at, s); err != nil {
			return nil, err
		}
		if err := c.Record(j.Workspace.ended, s); err != nil {
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
func (j *Job) end(failed bool) error {
	var errs []error
	_ = j.wait() // it failed for another reason
	if failed {
		errs = append(errs, j.Dev.Do(func(c *cuda.Context) error {
			var errs []error
			for _, s := range append([]cuda.Stream{j.Feeder.Stream, j.Workspace.stream}, j.streams()...) {
				errs = append(errs, c.Wait(s))
			}
			return errors.Join(errs...)
		}))
	}
	for _, s := range j.Workspace.Slots {
		if !failed {
			errs = append(errs, j.empty(s))
		}
		if s.Batch != nil {
			j.giveBack(s.Batch, errors.Join(errs...) == nil)
		}
		j.Store.Unpin(s.pinned)
		s.free()
	}
	j.Stages.CopiedBytes += j.described
	j.timing.finish(j.Stages)
	return errors.Join(errs...)
}

func (j *Job) streams() (all []cuda.Stream) {
	for _, s := range j.Workspace.Slots {
		all = append(all, s.Stream)
	}
	return all
}

// View is a section among what was fetched.
func View[T any](j *Job, fetched []byte, s layout.Section) []T {
	return layout.As[T](fetched, layout.Section{At: s.At - j.outcome, Size: s.Size})
}
