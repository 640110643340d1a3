package pipeline

import (
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
	return &plan.DeviceStages{
		Batches: s.Batches, Copied: s.CopiedBytes, Resident: s.ResidentBytes,
		Waited: s.Waited.Microseconds(), Compiled: s.Compiled.Microseconds(), Prepare: s.Prepare.Microseconds(), Copy: s.Copy.Microseconds(),
		Decode: s.Decode.Microseconds(), Window: s.Window.Microseconds(), Reduce: s.Reduce.Microseconds(), Result: s.Result.Microseconds(),
		CopyRate: s.CopyRate(), LinkShare: s.LinkShare(), Overlap: s.Overlap(),
	}
}

// CopyRate is what copying reached, in bytes a second.
func (s *Stages) CopyRate() float64 {
	if s.Copying <= 0 {
		return 0
	}
	return float64(s.CopiedBytes) / s.Copying.Seconds()
}

// LinkShare is CopyRate as a share of what the link can do, or 0 where that is not
// known.
func (s *Stages) LinkShare() float64 {
	if s.Link <= 0 {
		return 0
	}
	return s.CopyRate() / s.Link
}

// Overlap is the share of the shorter of copying and computing that the longer
// hid, or 0 if nothing was copied.
func (s *Stages) Overlap() float64 {
	least := min(s.Copying, s.Computing)
	if least <= 0 {
		return 0
	}
	return s.Hidden.Seconds() / least.Seconds()
}

// interval is a stretch of time in ms.
type interval struct{ from, to float64 }

// timing collects when what ran on the device, for Stages.
type timing struct {
	copies, kernels []interval
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
		t.copies = append(t.copies, interval{at[atCopy], at[atCopied]})
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
	t.kernels = append(t.kernels, interval{at[atBegin], at[atWindowed]}, interval{at[atReduce], at[atReduced]})
	return nil
}

// finish works out what ran beside what.
func (t *timing) finish(to *Stages) {
	copies, kernels := union(t.copies), union(t.kernels)
	to.Copying, to.Computing, to.Hidden = ms(length(copies)), ms(length(kernels)), ms(length(common(copies, kernels)))
}

func ms(v float64) time.Duration { return time.Duration(max(v, 0) * float64(time.Millisecond)) }

// union joins intervals that touch.
func union(in []interval) (out []interval) {
	slices.SortFunc(in, func(a, b interval) int {
		if a.from < b.from {
			return -1
		}
		return 1
	})
	for _, i := range in {
		if n := len(out); n > 0 && i.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, i.to)
		} else {
			out = append(out, i)
		}
	}
	return out
}

// common are the stretches that lie in both of two unions.
func common(a, b []interval) (out []interval) {
	for len(a) > 0 && len(b) > 0 {
		if from, to := max(a[0].from, b[0].from), min(a[0].to, b[0].to); from < to {
			out = append(out, interval{from, to})
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

func length(in []interval) (n float64) {
	for _, i := range in {
		n += i.to - i.from
	}
	return n
}
