package pipeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/plan"
)

// Stages say what a job took, stage by stage. Copying runs beside the kernels, and
// kernels of several batches beside each other, so the parts add up to more than
// the whole.
type Stages struct {
	// On the host.
	Waited time.Duration // for the device, which other jobs had, and for Compiled
	// Compiled is what loading kernels took that the machine had not loaded.
	Compiled time.Duration
	Prepare  time.Duration // where each series and chunk goes: the cores' part before the last batch is on its way
	Total    time.Duration // from Run to its result

	Batches       int
	Fused         bool  // windows were computed while decoding: Window is both, Decode nothing
	CopiedBytes   int64 // to the device: chunks, and where they are
	ResidentBytes int64 // of chunks that were on the device already

	// On the device, sums over the batches.
	Copy, Decode, Window, Reduce, Result time.Duration

	// Hidden is the time in which both a copy and a kernel were under way.
	Hidden time.Duration
	// Copying and Computing are the times in which at least one was.
	Copying, Computing time.Duration

	// Link is what the link to the device was measured to copy, in bytes a second,
	// or 0.
	Link float64
}

// Explain is what a query says of the stages.
func (s *Stages) Explain() *plan.DeviceStages {
	rate := ratio(float64(s.CopiedBytes), s.Copying.Seconds())
	return &plan.DeviceStages{
		Batches: s.Batches, Copied: s.CopiedBytes, Resident: s.ResidentBytes,
		Waited: s.Waited.Microseconds(), Compiled: s.Compiled.Microseconds(), Prepare: s.Prepare.Microseconds(), Copy: s.Copy.Microseconds(),
		Decode: s.Decode.Microseconds(), Window: s.Window.Microseconds(), Reduce: s.Reduce.Microseconds(), Result: s.Result.Microseconds(),
		CopyRate: rate, LinkShare: ratio(rate, s.Link), Overlap: ratio(s.Hidden.Seconds(), min(s.Copying, s.Computing).Seconds()),
	}
}

// ratio is a/b, or 0 where b is not known.
func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// edge is a time, in ms, from which on so many more copies and kernels are under way.
type edge struct {
	at              float64
	copies, kernels int
}

// timing collects when what ran on the device, for Stages.
type timing []edge

// ran notes copies and kernels that were under way from one time to another.
func (t *timing) ran(from, to float64, copies, kernels int) {
	*t = append(*t, edge{from, copies, kernels}, edge{to, -copies, -kernels})
}

// note reads the marks of a batch that is done, in ms from the job's beginning.
func (t *timing) note(c *cuda.Context, since cuda.Event, l *Slot, to *Stages) error {
	var at [numMarks]float64
	for m := range at {
		if mark(m) <= atCopied && !l.copies {
			continue
		}
		var err error
		if at[m], err = c.Elapsed(since, l.marks[m]); err != nil {
			return err
		}
	}
	took := func(from, to mark) time.Duration { return ms(at[to] - at[from]) }
	if l.copies {
		t.ran(at[atCopy], at[atCopied], 1, 0)
		to.Copy += took(atCopy, atCopied)
	}
	to.Decode += took(atBegin, atDecoded)
	to.Window += took(atDecoded, atWindowed)
	to.Reduce += took(atReduce, atReduced)
	if l.Batch.buffers != nil {
		back, err := c.Elapsed(l.marks[atReduced], l.back)
		if err != nil {
			return err
		}
		to.Result += ms(back)
	}
	t.ran(at[atBegin], at[atWindowed], 0, 1)
	t.ran(at[atReduce], at[atReduced], 0, 1)
	return nil
}

// finish works out what ran beside what.
func (t timing) finish(to *Stages) {
	slices.SortFunc(t, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	var now edge
	for _, e := range t {
		took := ms(e.at - now.at)
		if now.copies > 0 {
			to.Copying += took
		}
		if now.kernels > 0 {
			to.Computing += took
		}
		if now.copies > 0 && now.kernels > 0 {
			to.Hidden += took
		}
		now = edge{e.at, now.copies + e.copies, now.kernels + e.kernels}
	}
}

func ms(v float64) time.Duration { return time.Duration(max(v, 0) * float64(time.Millisecond)) }
