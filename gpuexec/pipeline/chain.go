package pipeline

import (
	"cmp"
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/resident"
)

// A job all of whose chunks are packed copies and decodes nothing, so that nothing is gained by
// batches, if the values of all its windows have room at once, and it does not take so long that it should
// end between them. Its kernels are one chain, on one stream and with one wait, at its end. All that it lacks
// on the device are tables of a word for each tile of chunks, which stay there for the next time.
//
//	clear ─► (tables) ─► Compute ─► Reduce ─► End ─► fetch

// chained reports whether the job is a chain. Then its layout is a batch, whose blocks are pinned.
func (j *Job) chained(r layout.Room) bool {
	r.Device = int(j.Workspace.size) - j.size
	tiles := j.Places() / layout.Lanes
	if r.Fuses || r.Rest > 0 || r.Long && j.Workspace.pool == j.Large || tiles*(8*r.Steps*layout.Lanes+2*r.Panes+r.Runs) > r.Device || !j.Packs(j.Selected.Sel) {
		return false
	}
	r.Packed, r.Goal = true, 0
	y := layout.New(j.Store, j.Selected, r)
	b, err := y.Batch(0)
	if b == nil || err != nil || len(b.Series) < len(j.Selected.GroupOf) {
		return false
	}
	p := &prepared{Part: b, slot: j.Workspace.Slots[0]}
	if !j.pin(p, &j.chains) {
		j.Store.Unpin(p.slot.pinned)
		p.slot.free()
		return false
	}
	j.Layout, j.chain = y, p
	return true
}

// runChain computes a job that is a chain.
func (j *Job) runChain() error {
	p, start := j.chain, time.Now()
	if err := j.Ended(); err != nil {
		return err
	}
	var fresh *resident.Block // the tables, unless they are there already
	if p.at == 0 {
		p.at = j.Rest
		if fresh = resident.Add(j.Store, j.Layout, p.In.Tables); fresh != nil {
			p.at = cuda.Pointer(fresh.At)
		}
	}
	j.Total, j.Stages.Batches = p.Total, 1
	j.Stages.ResidentBytes += int64(p.Total.Encoded)
	err := j.Dev.Do(func(c *cuda.Context) error { return j.launch(c, p, start) })
	j.chains.Lock()
	defer j.chains.Unlock()
	switch {
	case fresh == nil:
	case err != nil || p.Resident != nil: // or another job brought them, too
		j.claimed = append(j.claimed, fresh)
	default:
		p.slot.pinned = append(p.slot.pinned, fresh)
		p.Resident = &layout.Tables{At: fresh, Of: p.slot.pinned}
	}
	return err
}

// launch puts the chain on the workspace's stream and waits for its end.
func (j *Job) launch(c *cuda.Context, p *prepared, start time.Time) error {
	w, d := j.Workspace, j.OnDevice(p.Part, p.at, j.Rest)
	d.stored = p.Bare
	q := j.Kernels.On(c, w.stream)
	if err := cmp.Or(j.begin(c), j.Program.Decode(q, d)); err != nil {
		return err
	}
	if p.words != nil {
		j.Layout.Fill(p.Part, p.slot.Staging, p.words, nil, 0, 0)
		if err := c.CopyIn(p.at, p.slot.Staging[:p.In.Tables], w.stream); err != nil {
			return err
		}
		j.Stages.CopiedBytes += int64(p.In.Tables)
	}
	if err := j.Program.Compute(q, d); err != nil {
		return err
	}
	if err := j.Program.Reduce(q, d); err != nil {
		return err
	}
	j.Stages.Prepare = time.Since(start)
	if err := j.fetch(c); err != nil {
		return err
	}
	took, err := c.Elapsed(w.ready, w.last)
	j.Stages.Window += ms(took)
	return err
}
