package gpuexec

import (
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/kernels/abi"
)

// onDevice is where a batch lies on the device.
type onDevice struct {
	*layout.Part
	launch.Batch
	groups launch.Parts
	out    launch.Output    // of the window kernel
	pieces cuda.Pointer     // see rows
	lent   []*pinned.Buffer // that its rows go to, see rows

	suffix, prefix cuda.Pointer // see WindowPanes
}

// onDevice says where a batch lies whose tables are at one address and the rest of
// it at another.
func (j *job) onDevice(b *layout.Part, tables, base cuda.Pointer) *onDevice {
	in := b.In
	made, o := base+cuda.Pointer(in.Size), layout.NewOutput(in, j.y.Room)
	at := func(p cuda.Pointer, s layout.Section) cuda.Pointer { return p + cuda.Pointer(s.At) }
	d := &onDevice{
		Part: b, pieces: at(made, o.Pieces),
		suffix: at(made, o.Suffix), prefix: at(made, o.Prefix),
		groups: launch.Parts{Groups: at(tables, in.Groups), Starts: at(tables, in.Starts), Count: uint32(len(b.Groups)), Places: uint32(len(b.Series))},
	}
	d.Batch = launch.Batch{
		Slab: j.x.arena, Table: at(tables, in.Table), Wide: at(tables, in.Wide), Since: j.y.Since(),
		Mixed: j.l.Selection.Has(chunkenc.EncXOR2), Chunks: uint32(in.Total.Positions * layout.Lanes),
		First: at(tables, in.First), Tiles: uint32(in.Tiles),
		Columns: launch.Columns{Rows: at(tables, in.Rows), Times: at(made, o.Times), Values: at(made, o.Values)},
		Decoded: at(made, o.Decoded),
	}
	d.out = launch.Output{
		Values: at(made, o.Windows), Reads: at(made, o.Reads),
		Counts: j.at(j.counts) + cuda.Pointer(b.Base*int(unsafe.Sizeof(abi.SeriesCounts{}))),
	}
	return d
}
