package gpuexec

import (
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/abi"
)

// onDevice is where a batch lies on the device.
type onDevice struct {
	*batch
	launch.Batch
	groups launch.Parts
	out    launch.Output // of the window kernel
	pieces cuda.Pointer  // see rows
	lent   []*rowBuffer  // that its rows go to, see rows

	suffix, prefix cuda.Pointer // see WindowPanes
}

// onDevice says where a batch lies whose tables are at one address and the rest of
// it at another.
func (j *job) onDevice(b *batch, tables, base cuda.Pointer) *onDevice {
	in := b.in
	made, o := base+cuda.Pointer(in.size), newOutput(in, j.y.room)
	at := func(p cuda.Pointer, s section) cuda.Pointer { return p + cuda.Pointer(s.at) }
	d := &onDevice{
		batch: b, pieces: at(made, o.pieces),
		suffix: at(made, o.suffix), prefix: at(made, o.prefix),
		groups: launch.Parts{Groups: at(tables, in.groups), Starts: at(tables, in.starts), Count: uint32(len(b.groups)), Places: uint32(len(b.series))},
	}
	d.Batch = launch.Batch{
		Slab: j.x.arena, Table: at(tables, in.table), Wide: at(tables, in.wide), Since: j.y.since(),
		Mixed: j.l.Selection.Has(chunkenc.EncXOR2), Chunks: uint32(in.total.positions * lanes),
		First: at(tables, in.first), Tiles: uint32(in.to - in.from),
		Columns: launch.Columns{Rows: at(tables, in.rows), Times: at(made, o.times), Values: at(made, o.values)},
		Decoded: at(made, o.decoded),
	}
	d.out = launch.Output{
		Values: at(made, o.windows), Reads: at(made, o.reads),
		Counts: j.at(j.counts) + cuda.Pointer(b.base*int(unsafe.Sizeof(abi.SeriesCounts{}))),
	}
	return d
}
