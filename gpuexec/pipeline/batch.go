package pipeline

import (
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pinned"
)

// Batch is a batch, and where it lies on the device.
type Batch struct {
	*layout.Part
	launch.Batch
	Groups launch.Parts
	Output layout.Output // where what the kernels make of the batch goes, for At
	made   cuda.Pointer  // where Output begins

	back    Back
	buffers []*pinned.Buffer // that rows go to; nil where none do
	lent    bool             // they are page-locked memory, which is given back
}

// At is where a section of Output is.
func (b *Batch) At(s layout.Section) cuda.Pointer { return b.made + cuda.Pointer(s.At) }

// OnDevice says where a batch lies whose tables are at one address and the rest of
// it at another.
func (j *Job) OnDevice(p *layout.Part, tables, base cuda.Pointer) *Batch {
	in := p.In
	b := &Batch{Part: p, Output: layout.NewOutput(in, j.Layout.Room), made: base + cuda.Pointer(in.Size)}
	at := func(s layout.Section) cuda.Pointer { return tables + cuda.Pointer(s.At) }
	b.Groups = launch.Parts{Groups: at(in.Groups), Starts: at(in.Starts), Count: uint32(len(p.Groups)), Places: uint32(len(p.Series))}
	b.Batch = launch.Batch{
		Slab: j.arena, Table: at(in.Table), Wide: at(in.Wide), Since: j.Layout.Since(),
		Mixed: j.Selected.Sel.Has(chunkenc.EncXOR2), Chunks: uint32(in.Total.Positions * layout.Lanes),
		First: at(in.First), Tiles: uint32(in.Tiles),
		Columns: launch.Columns{Rows: at(in.Rows), Times: b.At(b.Output.Times), Values: b.At(b.Output.Values)},
		Decoded: b.At(b.Output.Decoded), Drop: j.Drop, Fault: j.At(j.Fault), FaultBase: uint64(p.Number) << 40,
	}
	return b
}
