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
	b, err := j.Part(n)
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
	return p, j.bring(p)
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
	if err := j.describe(p, base); err != nil {
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
	wait := func(e cuda.Event) func() error { return func() error { return c.WaitEvent(s, e) } }
	record := func(at mark) func() error { return func() error { return c.Record(m[at], s) } }
	work := []func() error{
		wait(j.Workspace.ready), wait(m[atCopied]),
		record(atBegin), func() error { return j.Program.Decode(q, d) },
		record(atDecoded), func() error { return j.Program.Compute(q, d) }, record(atWindowed),
	}
	if j.last != 0 {
		work = append(work, wait(j.last))
	}
	work = append(work, record(atReduce), func() error { return j.Program.Reduce(q, d) }, record(atReduced))
	for _, f := range work {
		if err := f(); err != nil {
			return err
		}
	}
	j.last = m[atReduced]
	return j.copyBack(c, p.slot)
}
