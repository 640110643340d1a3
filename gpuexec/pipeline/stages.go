package pipeline

import "time"

// Stages say what a job took, stage by stage. Copying runs beside the kernels, and
// kernels of several batches beside each other, so the parts add up to more than
// the whole.
type Stages struct {
	// On the host.
	Open   time.Duration // fetching, labels, groups
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
	Device                               time.Duration // from the first of them to the end of the last

	// Hidden is the time in which both a copy and a kernel were under way.
	Hidden time.Duration
	// Copying and Computing are the times in which at least one was.
	Copying, Computing time.Duration

	// Link is what the link to the device was measured to copy, in bytes a second,
	// or 0.
	Link float64
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
