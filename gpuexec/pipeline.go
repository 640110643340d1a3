package gpuexec

import (
	"errors"
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/internal/rescue"
)

// prepared is a batch whose chunks are on the device or on their way there.
type prepared struct {
	*layout.Part
	slot  *slot
	at    cuda.Pointer // of its tables
	bases []uint64     // device addresses of slabs, or nil if the tables are there already
}

// batches puts all batches on their way, in their order. The chunks of one are
// copied while the tables of the one before are made.
func (j *job) batches() error {
	free := make(chan *slot, len(j.workspace.slots))
	for _, s := range j.workspace.slots {
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
	j.stages.Prepare = time.Since(start)
	return errors.Join(err, planned)
}

// prepare finds out about batch n, waits for a slot, and puts copying its chunks on
// their way. Behind the last batch, or after stop, it returns nil.
func (j *job) prepare(n int, free <-chan *slot, stop <-chan struct{}) (*prepared, error) {
	var b *layout.Part
	err := preparing.Do(func() (err error) { b, err = j.batch(n); return err })
	if b == nil || err != nil {
		return nil, err
	}
	p := &prepared{Part: b, slot: <-free}
	select {
	case <-stop:
		return nil, nil
	default:
	}
	if err := j.l.Done(); err != nil {
		return nil, err
	}
	if err := j.empty(p.slot); err != nil {
		return nil, err
	}
	return p, copying.Do(func() error { return j.x.bring(j, p) })
}

// empty waits for the batch that has a slot.
func (j *job) empty(s *slot) error {
	if !s.busy {
		return nil
	}
	err := j.x.dev.Do(func(c *cuda.Context) error {
		if s.batch.lent != nil {
			if err := c.WaitReached(s.back); err != nil {
				return err
			}
		}
		if err := c.WaitReached(s.marks[atReduced]); err != nil {
			return err
		}
		return j.timing.note(c, j.workspace.ready, s, j.stages)
	})
	if err != nil {
		return err // the slot's blocks are in use until the job ends
	}
	if err := j.product.deliver(j, s); err != nil {
		return err
	}
	j.x.store.Unpin(s.pinned)
	s.free()
	return nil
}

// send puts the rest of a batch's work on its way.
func (j *job) send(p *prepared) error {
	if err := j.l.Done(); err != nil {
		return err
	}
	base := j.rest + cuda.Pointer(p.Number%len(j.workspace.slots)*j.each)
	if err := copying.Do(func() error { return j.x.describe(j, p, base) }); err != nil {
		return err
	}
	p.slot.busy, p.slot.batch = true, j.onDevice(p.Part, p.at, base)
	j.product.arrange(j, p.slot)
	if err := j.x.dev.Do(func(c *cuda.Context) error { return j.enqueue(c, p) }); err != nil {
		return err
	}
	j.total.Add(p.Total)
	j.stages.Batches++
	return nil
}

// queue is where launches on a stream go.
func (j *job) queue(c *cuda.Context, s cuda.Stream) launch.Queue { return j.x.k.On(c, s) }

// enqueue puts the stages of a batch on its slot's stream.
func (j *job) enqueue(c *cuda.Context, p *prepared) error {
	s, m, d := p.slot.stream, &p.slot.marks, p.slot.batch
	q := j.queue(c, s)
	stages := []struct {
		name  *cuda.Stage
		after cuda.Event // that the stage waits for, or 0
		begun mark
		work  func() error
		done  mark
	}{
		{decoding, m[atCopied], atBegin, func() error { return j.decode(q, d) }, atDecoded},
		{windowing, 0, atDecoded, func() error { return j.windows(q, d) }, atWindowed},
		{reducing, j.last, atReduce, func() error { return j.product.reduce(j, q, d) }, atReduced},
	}
	if err := c.WaitEvent(s, j.workspace.ready); err != nil {
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
	return j.product.back(j, c, p.slot)
}

// decode puts decoding a batch to columns on a stream, unless that is one with the windows.
func (j *job) decode(q launch.Queue, d *onDevice) error {
	if d.Chunks == 0 || j.fuses {
		return nil
	}
	return q.DecodeSeries(&d.Batch, j.drops(), j.report(d.Number))
}

// windows puts the windows of a batch on a stream, the maps of their values, and counting what
// they read.
func (j *job) windows(q launch.Queue, d *onDevice) error {
	steps := j.steps
	steps.PerThread = j.perThread(d.Part)
	if err := j.window(q, d, steps); err != nil {
		return err
	}
	if err := j.apply(q, d); err != nil {
		return err
	}
	return j.product.count(j, q, d)
}
