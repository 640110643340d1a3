package pipeline

import (
	"errors"
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/internal/rescue"
)

// prepared is a batch whose chunks are on the device or on their way there.
type prepared struct {
	*layout.Part
	slot  *Slot
	at    cuda.Pointer // of its tables
	bases []uint64     // device addresses of slabs, or nil if the tables are there already
}

// batches puts all batches on their way, in order. The chunks of one are
// copied while the tables of the one before are made.
func (j *Job) batches() error {
	free := make(chan *Slot, len(j.Workspace.Slots))
	for _, s := range j.Workspace.Slots {
		free <- s
	}
	ready := make(chan *prepared, 1)
	stop := make(chan struct{})
	var planned error
	go func() {
		defer close(ready)
		for n := 0; ; n++ {
			var p *prepared
			err := rescue.Do(func() (err error) {
				p, err = j.prepare(n, free, stop)
				return err
			})
			if planned = err; p == nil || err != nil {
				return
			}
			ready <- p
		}
	}()
	start := time.Now()
	var err error
	for p := range ready {
		if err == nil {
			err = j.send(p)
			if err != nil {
				close(stop)
			}
		}
		free <- p.slot
	}
	j.Stages.Prepare = time.Since(start)
	return errors.Join(err, planned)
}

// prepare finds out about batch n, waits for a slot, and puts copying its chunks on
// their way. Behind the last batch, or after stop, it returns nil.
func (j *Job) prepare(n int, free <-chan *Slot, stop <-chan struct{}) (*prepared, error) {
	var b *layout.Part
	err := preparing.Do(func() (err error) { b, err = j.Part(n); return err })
	if b == nil || err != nil {
		return nil, err
	}
	p := &prepared{Part: b, slot: <-free}
	select {
	case <-stop:
		return nil, nil
	default:
	}
	if err := j.Ended(); err != nil {
		return nil, err
	}
	if err := j.empty(p.slot); err != nil {
		return nil, err
	}
	return p, copying.Do(func() error { return j.bring(p) })
}

// empty waits for the batch that has a slot.
func (j *Job) empty(s *Slot) error {
	if !s.busy {
		return nil
	}
	err := j.Dev.Do(func(c *cuda.Context) error {
		if s.Batch.buffers != nil {
			if err := c.WaitReached(s.back); err != nil {
				return err
			}
		}
		if err := c.WaitReached(s.marks[atReduced]); err != nil {
			return err
		}
		return j.timing.note(c, j.Workspace.ready, s, j.Stages)
	})
	if err != nil {
		return err // the slot's blocks are in use until the job ends
	}
	if err := j.deliver(s); err != nil {
		return err
	}
	j.Store.Unpin(s.pinned)
	s.free()
	return nil
}

// send puts the rest of a batch's work on its way.
func (j *Job) send(p *prepared) error {
	if err := j.Ended(); err != nil {
		return err
	}
	base := j.Rest + cuda.Pointer(p.Number%len(j.Workspace.Slots)*j.each)
	if err := copying.Do(func() error { return j.describe(p, base) }); err != nil {
		return err
	}
	p.slot.busy, p.slot.Batch = true, j.OnDevice(p.Part, p.at, base)
	j.borrow(p.slot.Batch)
	if err := j.Dev.Do(func(c *cuda.Context) error { return j.enqueue(c, p) }); err != nil {
		return err
	}
	j.Total.Add(p.Total)
	j.Stages.Batches++
	return nil
}

// enqueue puts the stages of a batch on its slot's stream.
func (j *Job) enqueue(c *cuda.Context, p *prepared) error {
	s, m, d := p.slot.Stream, &p.slot.marks, p.slot.Batch
	q := j.Queue(c, s)
	stages := []struct {
		name  *cuda.Stage
		after cuda.Event // that the stage waits for, or 0
		begun mark
		work  func() error
		done  mark
	}{
		{decoding, m[atCopied], atBegin, func() error { return j.Program.Decode(q, d) }, atDecoded},
		{windowing, 0, atDecoded, func() error { return j.Program.Compute(q, d) }, atWindowed},
		{reducing, j.last, atReduce, func() error { return j.Program.Reduce(q, d) }, atReduced},
	}
	if err := c.WaitEvent(s, j.Workspace.ready); err != nil {
		return err
	}
	at := atCopied // the last mark on the stream
	for _, stage := range stages {
		if stage.after != 0 {
			if err := c.WaitEvent(s, stage.after); err != nil {
				return err
			}
		}
		if stage.begun != at {
			if err := c.Record(m[stage.begun], s); err != nil {
				return err
			}
		}
		if err := stage.name.Do(stage.work); err != nil {
			return err
		}
		if err := c.Record(m[stage.done], s); err != nil {
			return err
		}
		at = stage.done
	}
	j.last = m[atReduced]
	return j.copyBack(c, p.slot)
}
