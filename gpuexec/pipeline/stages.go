package pipeline

import (
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

	// On the device, sums over the batches. Of a job that is a chain, Window has Reduce in it.
	Copy, Decode, Window, Reduce, Result time.Duration
}

// Beside adds what a job took that another device computed at the same time: of each time the longer counts.
func (s *Stages) Beside(o *Stages) {
	for to, took := range map[*time.Duration]time.Duration{
		&s.Waited: o.Waited, &s.Compiled: o.Compiled, &s.Prepare: o.Prepare, &s.Total: o.Total,
		&s.Copy: o.Copy, &s.Decode: o.Decode, &s.Window: o.Window, &s.Reduce: o.Reduce, &s.Result: o.Result,
	} {
		*to = max(*to, took)
	}
	s.Batches, s.Fused = s.Batches+o.Batches, s.Fused || o.Fused
	s.CopiedBytes, s.ResidentBytes = s.CopiedBytes+o.CopiedBytes, s.ResidentBytes+o.ResidentBytes
}

// Explain is what a query says of the stages.
func (s *Stages) Explain() *plan.DeviceStages {
	e := &plan.DeviceStages{
		Batches: s.Batches, Copied: s.CopiedBytes, Resident: s.ResidentBytes,
		Waited: s.Waited.Microseconds(), Compiled: s.Compiled.Microseconds(), Prepare: s.Prepare.Microseconds(), Copy: s.Copy.Microseconds(),
		Decode: s.Decode.Microseconds(), Window: s.Window.Microseconds(), Reduce: s.Reduce.Microseconds(), Result: s.Result.Microseconds(),
	}
	if s.Copy > 0 {
		e.CopyRate = float64(s.CopiedBytes) / s.Copy.Seconds()
	}
	return e
}

// add adds what a batch that is done took on the device, by the marks of its slot.
func (s *Stages) add(c *cuda.Context, l *Slot) error {
	type part struct {
		to       *time.Duration
		from, at cuda.Event
	}
	m := &l.marks
	parts := []part{
		{&s.Copy, m[atCopy], m[atCopied]}, {&s.Decode, m[atBegin], m[atDecoded]},
		{&s.Window, m[atDecoded], m[atWindowed]}, {&s.Reduce, m[atReduce], m[atReduced]},
	}
	if l.Batch.buffers != nil {
		parts = append(parts, part{&s.Result, m[atReduced], l.back})
	}
	for _, p := range parts {
		took, err := c.Elapsed(p.from, p.at)
		if err != nil {
			return err
		}
		*p.to += ms(took)
	}
	return nil
}

func ms(v float64) time.Duration { return time.Duration(max(v, 0) * float64(time.Millisecond)) }
