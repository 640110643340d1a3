package gpuexec

import (
	"errors"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
)

// rows are the product of a window that is not aggregated here: its values, which
// are copied back batch by batch. They go to memory that they may stay in. While that
// is all lent, they come in pieces. A piece is some tiles of a batch. It passes through
// one half of the slot's staging memory, which the batch does not need any more, while
// the cores consume the one in the other half.
type rows struct {
	tiles int // of a piece
	half  int // bytes

	taking chan error // the cores are consuming rows, and this is what came of it; or nil
}

// words is the number of words of a series' bitmap.
func (p *rows) words(j *job) int { return (j.l.Grid.Steps + 63) / 64 }

// tileBytes is what a tile takes besides its values on the device: bitmaps, and the
// counts of each step for a piece.
func (p *rows) tileBytes(j *job) int { return 8*layout.Lanes*p.words(j) + p.readBytes(j) }

func (p *rows) readBytes(j *job) int { return 2 * 8 * j.l.Grid.Steps }

// room says how large pieces are, which pass through half of a slot's staging memory.
func (p *rows) room(j *job, r *layout.Room) error {
	p.half = len(j.Workspace.Slots[0].Staging) / 2 &^ 255
	tile := layout.Lanes * (8*j.l.Grid.Steps + 8*p.words(j) + int(unsafe.Sizeof(abi.SeriesCounts{})))
	p.tiles = (p.half - p.readBytes(j) - 5*256) / tile
	if p.tiles < 1 {
		return &Unsuited{Reason: "the values of 32 series, at all steps, need more page-locked memory than the executor has"}
	}
	r.Pieces = p.tileBytes(j)
	return nil
}

func (p *rows) own(*job) {}
func (p *rows) out(*job) {}

func (p *rows) begin(*job, *cuda.Context, cuda.Stream) error { return nil }

func (p *rows) end(*job, *cuda.Context, cuda.Stream) error { return nil }

func (p *rows) results(*job, []byte, *cpuexec.Results) {}

// fetch waits for all batches, whose rows are delivered one after the other.
func (p *rows) fetch(j *job) ([]byte, error) { return nil, errors.Join(j.Drain(), p.wait()) }

// piece is a part of a batch that is copied back at once.
type rowsPiece struct {
	from, tiles int          // tiles
	series      int          // that there are
	reads       cuda.Pointer // samples in the windows of each step, and those no earlier step had
}

// pieces are those of a batch, one if it need not pass through staging memory.
func (p *rows) pieces(j *job, d *pipeline.Batch) (all []rowsPiece) {
	reads, most := d.At(d.Output.Pieces)+cuda.Pointer(8*layout.Lanes*p.words(j)*len(d.Sizes)), p.tiles
	if d.Lent != nil {
		most = len(d.Sizes)
	}
	for from := 0; from < len(d.Sizes); from += most {
		n := min(most, len(d.Sizes)-from)
		all = append(all, rowsPiece{from, n, min(n*layout.Lanes, len(d.Series)-from*layout.Lanes), reads})
		reads += cuda.Pointer(p.readBytes(j))
	}
	return all
}

// count puts counting the samples that each step reads, piece by piece, on a stream.
func (p *rows) count(j *job, q launch.Queue, d *pipeline.Batch) error {
	n := j.steps.Count
	for _, k := range p.pieces(j, d) {
		if err := q.Context.Set(k.reads, 0, uint64(p.readBytes(j)), q.Stream); err != nil {
			return err
		}
		from := d.Out.Reads + cuda.Pointer(8*layout.Lanes*k.from*int(n))
		if err := q.StepReads(from, uint32(k.tiles), n, k.reads, k.reads+cuda.Pointer(8*n)); err != nil {
			return err
		}
	}
	return nil
}

// reduce makes the rows. They go where the counts were that count has looked at.
func (p *rows) reduce(j *job, q launch.Queue, d *pipeline.Batch) error {
	return q.SeriesRows(d.Out.Values, d.Tiles, j.steps.Count, d.Out.Reads, d.At(d.Output.Pieces))
}

// copied is a piece in the host's memory.
type copied struct {
	values, present, counts, reads, fault layout.Section
}

// layOut lays a piece out, with the values if they pass through the same memory, and
// says what it takes.
func (p *rows) layOut(j *job, k rowsPiece, values bool) (at copied, size int) {
	next := func(n int) layout.Section {
		s := layout.Section{At: size, Size: n}
		size += layout.Aligned(n, 256)
		return s
	}
	places := k.tiles * layout.Lanes
	if values {
		at.values = next(8 * places * j.l.Grid.Steps)
	}
	at.present = next(8 * places * p.words(j))
	at.counts, at.reads, at.fault = next(places*int(unsafe.Sizeof(abi.SeriesCounts{}))), next(p.readBytes(j)), next(8)
	return at, size
}

// deliver hands the rows of a slot's batch, which is done, to the cores. They consume
// those in lent memory while the next batch is put on its way.
func (p *rows) deliver(j *job, s *pipeline.Slot) error {
	if err := p.wait(); err != nil {
		return err
	}
	d := s.Batch
	if d.Lent != nil {
		return p.receiveAll(j, s)
	}
	pieces := p.pieces(j, d)
	for i := range len(pieces) + 1 {
		if i < len(pieces) {
			if err := p.send(j, s, pieces[i], i%2); err != nil {
				return err
			}
		}
		if i == 0 {
			continue
		}
		if err := p.receive(j, s, pieces[i-1], (i-1)%2); err != nil {
			return err
		}
	}
	return nil
}

// send puts copying a piece to one half on its way.
func (p *rows) send(j *job, s *pipeline.Slot, k rowsPiece, half int) error {
	at, _ := p.layOut(j, k, true)
	buf := s.Staging[half*p.half:]
	from := s.Batch.Out.Reads + cuda.Pointer(8*k.from*layout.Lanes*j.l.Grid.Steps)
	return j.Dev.Do(func(c *cuda.Context) error {
		if err := c.CopyOut(buf[at.values.At:][:at.values.Size], from, s.Stream); err != nil {
			return err
		}
		if err := p.sendRest(j, c, s, k, at, buf); err != nil {
			return err
		}
		return c.Record(j.Workspace.Halves[half], s.Stream)
	})
}

// sendRest puts copying what goes with a piece's values on the slot's stream.
func (p *rows) sendRest(j *job, c *cuda.Context, s *pipeline.Slot, k rowsPiece, at copied, buf []byte) error {
	d, place := s.Batch, k.from*layout.Lanes
	for _, t := range []struct {
		to   layout.Section
		from cuda.Pointer
	}{
		{at.present, d.At(d.Output.Pieces) + cuda.Pointer(8*place*p.words(j))},
		{at.counts, d.Out.Counts + cuda.Pointer(place*int(unsafe.Sizeof(abi.SeriesCounts{})))},
		{at.reads, k.reads},
		{at.fault, j.At(j.Fault)},
	} {
		if err := c.CopyOut(buf[t.to.At:t.to.At+t.to.Size], t.from, s.Stream); err != nil {
			return err
		}
	}
	return nil
}

// receive waits for a piece and hands it to the cores.
func (p *rows) receive(j *job, s *pipeline.Slot, k rowsPiece, half int) error {
	if err := j.Dev.Do(func(c *cuda.Context) error { return c.WaitReached(j.Workspace.Halves[half]) }); err != nil {
		return err
	}
	at, _ := p.layOut(j, k, true)
	buf := s.Staging[half*p.half:]
	x := cpuexec.Rows{Values: [][]float64{layout.As[float64](buf, at.values)}, Each: k.series}
	if err := p.rest(j, &x, k, at, buf); err != nil {
		return err
	}
	return j.consume(x)
}

// rest adds what was copied with values.
func (p *rows) rest(j *job, x *cpuexec.Rows, k rowsPiece, at copied, buf []byte) error {
	// It may be a fault of a later batch. Then the cores begin a little earlier.
	if err := j.Corrupt(layout.As[uint64](buf, at.fault)[0]); err != nil {
		return err
	}
	reads := layout.As[int64](buf, at.reads)
	x.Present, x.Counts = layout.As[uint64](buf, at.present), layout.As[cpuexec.SeriesCounts](buf, at.counts)[:k.series]
	x.All, x.Fresh = reads[:j.l.Grid.Steps], reads[j.l.Grid.Steps:]
	return nil
}
