package pipeline

import (
	"errors"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/resident"
)

// Workspace is what one job has for itself while it is evaluated: a part of the arena,
// streams, and memory to put tables together in. There are two. One is kept for
// small jobs, so that they need not wait for a large one: their batches take turns
// with its.
type Workspace struct {
	turn   chan struct{} // holds a token while no job has the workspace
	at     cuda.Pointer
	size   uint64
	Slots  []*Slot
	stream cuda.Stream // what a job begins and ends with
	ready  cuda.Event  // the states are; times are counted from here
	ended  cuda.Event  // the last result was fetched
	last   cuda.Event  // all batches are done
}

// Slot is what a batch has for itself while it is under way.
type Slot struct {
	Stream  cuda.Stream
	Staging []byte
	marks   [numMarks]cuda.Event
	back    cuda.Event // rows were copied back

	// Of the batch that has it.
	busy   bool // work was put on the stream
	copies bool // something was copied
	pinned []*resident.Block
	Batch  *Batch
}

// free says that nothing of a batch is under way any more.
func (s *Slot) free() { s.busy, s.copies, s.pinned, s.Batch = false, false, nil, nil }

// mark is a place in a batch's work.
type mark int

const (
	atCopy mark = iota
	atCopied
	atBegin
	atDecoded
	atWindowed
	atReduce
	atReduced
	numMarks
)

func (s *Workspace) take(c *cuda.Context, slots, staging int) (err error) {
	if s.stream, err = c.NewStream(); err != nil {
		return err
	}
	for _, e := range []*cuda.Event{&s.ready, &s.ended, &s.last} {
		if *e, err = c.NewEvent(true); err != nil {
			return err
		}
	}
	for range slots {
		l := &Slot{}
		s.Slots = append(s.Slots, l)
		if l.Stream, err = c.NewStream(); err != nil {
			return err
		}
		for m := range l.marks {
			if l.marks[m], err = c.NewEvent(true); err != nil {
				return err
			}
		}
		if l.back, err = c.NewEvent(true); err != nil {
			return err
		}
		if l.Staging, err = c.AllocHost(staging); err != nil {
			return err
		}
	}
	s.turn <- struct{}{}
	return nil
}

// release gives back what was taken, as far as it was.
func (s *Workspace) release(c *cuda.Context) error {
	var errs []error
	for _, l := range s.Slots {
		if l.Stream != 0 {
			errs = append(errs, c.DestroyStream(l.Stream))
		}
		for _, e := range append(l.marks[:], l.back) {
			if e != 0 {
				errs = append(errs, c.DestroyEvent(e))
			}
		}
		if l.Staging != nil {
			errs = append(errs, c.FreeHost(l.Staging))
		}
	}
	for _, e := range []cuda.Event{s.ready, s.ended, s.last} {
		if e != 0 {
			errs = append(errs, c.DestroyEvent(e))
		}
	}
	if s.stream != 0 {
		errs = append(errs, c.DestroyStream(s.stream))
	}
	return errors.Join(errs...)
}

// Leave lets another job have the workspace.
func (s *Workspace) Leave() { s.turn <- struct{}{} }
