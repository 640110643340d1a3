package gpuexec

import (
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/rescue"
)

// This file is how rows come to memory that they may stay in.

// each is how many rows a buffer has room for.
func (p *rows) each(j *job) int { return pinned.BufferValues / j.l.Grid.Steps }

// arrange gets memory for the rows of a slot's batch, if there is enough, and for what goes
// with them.
func (p *rows) arrange(j *job, s *pipeline.Slot) {
	d, each := s.Batch, p.each(j)
	if _, size := p.layOut(j, rowsPiece{tiles: len(d.Sizes)}, false); each == 0 || size > len(s.Staging) {
		return
	}
	d.Lent = j.Lender.Lend((len(d.Series) + each - 1) / each)
}

// back puts copying the rows of a slot's batch to where they may stay on its stream.
func (p *rows) back(j *job, c *cuda.Context, s *pipeline.Slot) error {
	d, each := s.Batch, p.each(j)
	if d.Lent == nil {
		return nil
	}
	return j.CopyBack(c, s, func() error {
		for k, to := range d.Lent {
			n := min(each, len(d.Series)-k*each)
			from := d.Out.Reads + cuda.Pointer(8*k*each*j.l.Grid.Steps)
			if err := c.CopyOut(to.Bytes()[:8*n*j.l.Grid.Steps], from, s.Stream); err != nil {
				return err
			}
		}
		k := p.pieces(j, d)[0]
		at, _ := p.layOut(j, k, false)
		return p.sendRest(j, c, s, k, at, s.Staging)
	})
}

// receiveAll lets the cores consume the rows of a slot's batch, which are there.
func (p *rows) receiveAll(j *job, s *pipeline.Slot) error {
	d, lent := s.Batch, s.Batch.Lent
	k := p.pieces(j, d)[0]
	at, size := p.layOut(j, k, false)
	x := cpuexec.Rows{Each: p.each(j), Release: func() { j.Lender.GiveBack(lent, true) }}
	for _, s := range lent {
		x.Values = append(x.Values, s[:])
	}
	// The next batch may have the staging memory before the cores are done.
	j.Workspace.Beside = append(j.Workspace.Beside[:0], s.Staging[:size]...)
	if err := p.rest(j, &x, k, at, j.Workspace.Beside); err != nil {
		return err
	}
	d.Lent = nil // until x.Release
	p.taking = make(chan error, 1)
	go func(done chan<- error) { done <- rescue.Do(func() error { return j.consume(x) }) }(p.taking)
	return nil
}

// wait waits for the cores to have consumed the rows that they got last.
func (p *rows) wait() error {
	if p.taking == nil {
		return nil
	}
	err := <-p.taking
	p.taking = nil
	return err
}
