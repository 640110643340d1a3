package resampling

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/resample"
)

// rows are the product of a request that answers each series. They come back batch by batch, to lent
// memory that they may stay in. While that is all lent, they come a piece of some tiles at a time,
// through one half of the slot's staging memory while the host consumes what came to the other half.
type rows struct {
	tiles int // of a piece
	half  int // bytes of a half

}

// words is the number of words of a series' bitmap.
func (p *rows) words(j *job) int { return (int(j.buckets.Count) + 63) / 64 }

func (p *rows) take(*job)    {}
func (p *rows) fetched(*job) {}

// tileBytes is what the rows and bitmaps of a tile take.
func (p *rows) tileBytes(j *job) (int, error) {
	tile := layout.Lanes * 8 * (len(j.t.Aggregates)*int(j.buckets.Count) + len(j.sources)*p.words(j))
	p.half = len(j.Workspace.Slots[0].Staging) / 2 &^ 255
	p.tiles = (p.half - 8) / tile
	if p.tiles < 1 {
		return 0, unsuited("the values of 32 series, with every bucket, need more page-locked memory than the executor has")
	}
	return tile, nil
}

func (p *rows) ready(*job) error                        { return nil }
func (p *rows) release(*job)                            {}
func (p *rows) stays(*job, int, *pipeline.Batch, *made) {}

func (p *rows) begin(*job, *cuda.Context, cuda.Stream) error { return nil }

// section is where rows of a batch lie on the device: what a place takes, in bytes.
type section struct {
	at   cuda.Pointer
	each int
}

// sections are the bitmaps by source, and then the rows by aggregate of the request.
func (p *rows) sections(j *job, b *pipeline.Batch) (all []section) {
	_, at := j.runs(b)
	places := int(b.Tiles) * layout.Lanes
	add := func(each int) {
		all = append(all, section{at, each})
		at += cuda.Pointer(places * each)
	}
	for range j.sources {
		add(8 * p.words(j))
	}
	for range j.t.Aggregates {
		add(8 * int(j.buckets.Count))
	}
	return all
}

func (p *rows) made(j *job, q launch.Queue, b *pipeline.Batch) error {
	runs, _ := j.runs(b)
	to := p.sections(j, b)
	for s := range j.sources {
		for _, a := range j.sources[s].Outputs {
			of, found := j.madeOf(s, a, &runs[s])
			if err := q.RunRows(&b.Batch, j.buckets.Count, &runs[s].Runs, of, found, to[len(runs)+a].at, to[s].at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *rows) reduce(*job, launch.Queue, *pipeline.Batch) error { return nil }

// deliver hands the rows of a slot's batch, which is done, to the host.
func (p *rows) deliver(j *job, s *pipeline.Slot) error {
	if s.Batch.Lent != nil {
		return p.receiveAll(j, s)
	}
	tiles := int(s.Batch.Tiles)
	pieces := (tiles + p.tiles - 1) / p.tiles
	for i := range pieces + 1 {
		if i < pieces {
			if err := p.send(j, s, i); err != nil {
				return err
			}
		}
		if i > 0 {
			if err := p.receive(j, s, i-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// places are the first place of piece i of a batch, and the number of its places.
func (p *rows) places(b *pipeline.Batch, i int) (from, n int) {
	from = i * p.tiles * layout.Lanes
	return from, min(p.tiles*layout.Lanes, int(b.Tiles)*layout.Lanes-from)
}

// send puts copying piece i to its half on its way.
func (p *rows) send(j *job, s *pipeline.Slot, i int) error {
	from, n := p.places(s.Batch, i)
	buf := s.Staging[i%2*p.half:][:p.half]
	return j.Dev.Do(func(c *cuda.Context) error {
		at, err := p.sendRest(j, c, s, from, n, buf)
		if err != nil {
			return err
		}
		for _, of := range p.sections(j, s.Batch)[len(j.sources):] {
			if err := c.CopyOut(buf[at:at+n*of.each], of.at+cuda.Pointer(from*of.each), s.Stream); err != nil {
				return err
			}
			at += n * of.each
		}
		return c.Record(j.Workspace.Halves[i%2], s.Stream)
	})
}

// restBytes is what goes with the values of so many places: the fault word and bitmaps.
func (p *rows) restBytes(j *job, places int) int { return 8 + 8*places*len(j.sources)*p.words(j) }

// sendRest puts copying what goes with the values of n places on the slot's stream, and says what it
// takes of buf.
func (p *rows) sendRest(j *job, c *cuda.Context, s *pipeline.Slot, from, n int, buf []byte) (at int, err error) {
	if err := c.CopyOut(buf[:8], j.At(j.Fault), s.Stream); err != nil {
		return 0, err
	}
	at = 8
	for _, of := range p.sections(j, s.Batch)[:len(j.sources)] {
		if err := c.CopyOut(buf[at:at+n*of.each], of.at+cuda.Pointer(from*of.each), s.Stream); err != nil {
			return 0, err
		}
		at += n * of.each
	}
	return at, nil
}

// cells are n places of a batch without their values, of what sendRest has copied to buf.
func (p *rows) cells(j *job, b *pipeline.Batch, from, n int, buf []byte) (*resample.Cells, error) {
	if err := j.Corrupt(layout.As[uint64](buf, layout.Section{Size: 8})[0]); err != nil {
		return nil, err
	}
	cells := &resample.Cells{}
	for _, series := range b.Series[from:min(from+n, len(b.Series))] {
		cells.Groups = append(cells.Groups, j.t.GroupOf[series])
	}
	each := 8 * n * p.words(j)
	for s := range j.sources {
		cells.Present = append(cells.Present, layout.As[uint64](buf, layout.Section{At: 8 + s*each, Size: each}))
	}
	return cells, nil
}

// receive waits for piece i and hands it on.
func (p *rows) receive(j *job, s *pipeline.Slot, i int) error {
	if err := j.Dev.Do(func(c *cuda.Context) error { return c.WaitReached(j.Workspace.Halves[i%2]) }); err != nil {
		return err
	}
	from, n := p.places(s.Batch, i)
	buf := s.Staging[i%2*p.half:][:p.half]
	cells, err := p.cells(j, s.Batch, from, n, buf)
	if err != nil {
		return err
	}
	at := layout.Section{At: p.restBytes(j, n), Size: 8 * n * int(j.buckets.Count)}
	for range j.t.Aggregates {
		cells.Values = append(cells.Values, layout.As[float64](buf, at))
		at.At += at.Size
	}
	cells.Each = n
	return j.hand(cells)
}

// fetch waits for all batches, whose rows are delivered one after the other.
func (p *rows) fetch(j *job) ([]byte, error) {
	if err := j.Drain(); err != nil {
		return nil, err
	}
	return j.FetchAll()
}

func (p *rows) end(*job, *cuda.Context, cuda.Stream) error { return nil }
func (p *rows) results(*job, []byte) error                 { return nil }
