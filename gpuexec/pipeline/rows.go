package pipeline

import (
	"errors"
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/internal/parallel"
)

// Back is what is copied back of a batch: rows of values, which go to memory that they may stay in,
// and what goes with them.
type Back struct {
	Rows  []cuda.Pointer // of each kind of rows: Width float64 a place
	Width int
	Rest  []Memory
}

// Memory is a stretch of device memory.
type Memory struct {
	At   cuda.Pointer
	Size int // bytes
}

// Returned is what came back of a batch.
type Returned struct {
	// Values are buffers, each of Each series, the last of fewer: all their rows of one kind, then those
	// of the next, each kind Each times Back.Width values.
	Values  [][]float64
	Each    int
	Rest    [][]byte // by Back.Rest
	Release func()   // lets others have the values' memory; once. Without it they do not stay
}

// seriesOfBuffer is the number of series that a buffer has room for.
func (b *Batch) seriesOfBuffer() int {
	return pinned.BufferValues / (len(b.back.Rows) * b.back.Width)
}

// borrow gets memory for what comes back of a batch: page-locked memory, or any where all that is
// lent already.
func (j *Job) borrow(b *Batch) {
	if b.back = j.Program.Back(b); len(b.back.Rows) == 0 {
		return
	}
	b.back.Rest = append(b.back.Rest, Memory{j.At(j.Fault), 8})
	each := b.seriesOfBuffer()
	n := (len(b.Series) + each - 1) / each
	if b.buffers = j.Lender.Lend(n); b.buffers != nil {
		b.lent = true
		return
	}
	b.buffers = pinned.Unlocked(n)
}

// giveBack lets others have the memory of a batch's rows. The device may yet write to it unless it is
// quiet.
func (j *Job) giveBack(b *Batch, quiet bool) {
	if b.lent {
		j.Lender.GiveBack(b.buffers, quiet)
	}
	b.buffers = nil
}

// copyBack puts copying back what a slot's batch comes to on its stream. It comes behind that of the
// batch before: if batches were copied side by side, they would all be done late, and nothing would be
// copied while the next are computed.
func (j *Job) copyBack(c *cuda.Context, s *Slot) error {
	b := s.Batch
	if b.buffers == nil {
		return nil
	}
	if j.returned != 0 {
		if err := c.WaitEvent(s.Stream, j.returned); err != nil {
			return err
		}
	}
	j.returned = s.back
	each, row := b.seriesOfBuffer(), 8*b.back.Width
	for k, to := range b.buffers {
		n := min(each, len(b.Series)-k*each)
		for i, from := range b.back.Rows {
			if err := c.CopyOut(to.Bytes()[i*each*row:][:n*row], from+cuda.Pointer(k*each*row), s.Stream); err != nil {
				return err
			}
		}
	}
	at := 0
	for _, m := range b.back.Rest {
		if m.Size > 0 {
			if err := c.CopyOut(s.Staging[at:at+m.Size], m.At, s.Stream); err != nil {
				return err
			}
		}
		at += layout.Aligned(m.Size, 8)
	}
	return c.Record(s.back, s.Stream)
}

// deliver has the program consume what came back of a slot's batch, while the next batch is put on its
// way.
func (j *Job) deliver(s *Slot) error {
	b := s.Batch
	if b.buffers == nil {
		return nil
	}
	if err := errors.Join(j.wait(), j.Ended()); err != nil {
		return err
	}
	r := &Returned{Each: b.seriesOfBuffer()}
	at := 0
	for _, m := range b.back.Rest {
		// The next batch may have the staging memory before this one is consumed.
		r.Rest = append(r.Rest, slices.Clone(s.Staging[at:at+m.Size]))
		at += layout.Aligned(m.Size, 8)
	}
	// It may be a fault of a later batch. Then the cores begin a little earlier.
	if err := j.Corrupt(layout.Of[uint64](r.Rest[len(r.Rest)-1])[0]); err != nil {
		return err
	}
	of := *b // whose memory is the program's now
	b.buffers = nil
	for _, buffer := range of.buffers {
		r.Values = append(r.Values, buffer[:])
	}
	// Few values do not keep much memory of the heap, which, unlike the Lender's, nothing bounds.
	if 2*len(of.Series)*len(of.back.Rows)*of.back.Width >= len(of.buffers)*pinned.BufferValues || of.lent {
		r.Release = func() { j.giveBack(&of, true) }
	}
	j.consuming = make(chan error, 1)
	go func(done chan<- error) {
		done <- parallel.Rescue(func() error { return j.Program.Consume(&of, r) })
	}(j.consuming)
	return nil
}

// wait waits for the program to have consumed what came back last.
func (j *Job) wait() error {
	if j.consuming == nil {
		return nil
	}
	err := <-j.consuming
	j.consuming = nil
	return err
}
