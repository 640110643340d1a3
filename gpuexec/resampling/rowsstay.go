package resampling

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
)

// This file copies rows straight into lent page-locked memory, so that the result can hold them
// without another copy. A buffer has some series: all their rows of an aggregate, then those of the
// next.

// each is how many series a buffer has room for.
func (p *rows) each(j *job) int {
	return pinned.BufferValues / (len(j.t.Aggregates) * int(j.buckets.Count))
}

// arrange gets memory for the rows of a slot's batch, if there is enough, and for what goes with
// them.
func (p *rows) arrange(j *job, s *pipeline.Slot) {
	b, each := s.Batch, p.each(j)
	if each == 0 || p.restBytes(j, len(b.Series)) > len(s.Staging) {
		return
	}
	b.Lent = j.Lender.Lend((len(b.Series) + each - 1) / each)
}

// back puts copying the rows of a slot's batch to where they may stay on its stream.
func (p *rows) back(j *job, c *cuda.Context, s *pipeline.Slot) error {
	b, each := s.Batch, p.each(j)
	if b.Lent == nil {
		return nil
	}
	values := p.sections(j, b)[len(j.sources):]
	return j.CopyBack(c, s, func() error {
		for k, to := range b.Lent {
			from, n := k*each, min(each, len(b.Series)-k*each)
			for a, of := range values {
				if err := c.CopyOut(to.Bytes()[a*each*of.each:][:n*of.each], of.at+cuda.Pointer(from*of.each), s.Stream); err != nil {
					return err
				}
			}
		}
		_, err := p.sendRest(j, c, s, 0, len(b.Series), s.Staging)
		return err
	})
}

// receiveAll hands on the rows of a slot's batch, which are there.
func (p *rows) receiveAll(j *job, s *pipeline.Slot) error {
	b, lent, each := s.Batch, s.Batch.Lent, p.each(j)
	cells, err := p.cells(j, b, 0, len(b.Series), s.Staging)
	if err != nil {
		return err
	}
	for _, of := range lent {
		for a := range j.t.Aggregates {
			cells.Values = append(cells.Values, of[a*each*int(j.buckets.Count):(a+1)*each*int(j.buckets.Count)])
		}
	}
	cells.Each, cells.Release = each, func() { j.Lender.GiveBack(lent, true) }
	b.Lent = nil // until cells.Release
	return j.hand(cells)
}
