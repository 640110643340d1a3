package gpuexec

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// job is a job under way.
type job struct {
	x     *Executor
	l     *cpuexec.Leaf
	f     function
	op    kernels.Operator
	steps Steps
	y     *layout
	panes *Panes    // or nil
	in    *resident // or nil

	// Device memory, from the arena's beginning.
	first, states, result, counts, fault cuda.Pointer
	reads                                cuda.Pointer // uint64, two a step: samples in the windows, and those no earlier step had
	rest                                 cuda.Pointer // for the slots, each so many bytes
	each                                 int

	inputs []input
	folded cuda.Event // the last recorded, or 0
}

func newJob(x *Executor, l *cpuexec.Leaf) *job {
	j := &job{x: x, l: l, f: functions[l.Window.Func.Name], op: operators[l.Aggregate.Func.Name], steps: steps(l)}
	j.in = x.resident[l.Selection]
	j.panes = j.f.panes(j.steps)
	return j
}

func (j *job) run() (*plan.Matrix, error) {
	if j.cells() == 0 {
		return j.l.Finish(func(int) kernels.SeriesCounts { return kernels.SeriesCounts{} }, nil, plan.Work{})
	}
	j.y = newLayout(j.l, j.in == nil)
	j.usePanes(j.y)
	if err := j.place(); err != nil {
		return nil, err
	}
	err := j.x.dev.Do(j.begin)
	if err == nil {
		err = j.batches()
	}
	var values []float64
	var counts []kernels.SeriesCounts
	reads := make([]int64, 2*j.l.Grid.Steps)
	if err == nil {
		values, counts, err = j.results(reads)
	}
	if err != nil {
		return nil, errors.Join(err, j.abandon())
	}
	runtime.KeepAlive(j.y)
	at := make([]uint32, len(j.y.series)) // the place of each series
	var work plan.Work
	for place, series := range j.y.series {
		at[series] = uint32(place)
	}
	for _, in := range j.inputs {
		work.Chunks += in.total.chunks
		work.Samples += in.total.samples
		work.Bytes += int64(in.total.encoded)
	}
	j.l.CountSteps(reads[:j.l.Grid.Steps], reads[j.l.Grid.Steps:])
	return j.l.Finish(func(series int) kernels.SeriesCounts { return counts[at[series]] }, values, work)
}

// abandon waits until nothing of a failed job is under way any more.
func (j *job) abandon() error {
	return j.x.dev.Do(func(c *cuda.Context) error {
		var errs []error
		for _, s := range j.x.slots {
			errs = append(errs, c.Wait(s.stream))
		}
		return errors.Join(append(errs, c.Wait(j.x.tables))...)
	})
}

// usePanes makes room for panes in a layout.
func (j *job) usePanes(y *layout) {
	if j.panes != nil {
		y.panes = j.panes.bytes(j.f.op)
	}
}

// cells is the number of groups times steps.
func (j *job) cells() int { return j.l.Groups * j.l.Grid.Steps }

// maxBatch is the most device memory in bytes that a batch takes unless a single
// tile needs more: enough to fill a device, and little enough that there are several
// batches to overlap.
const maxBatch = 2 << 30

// place divides the arena and cuts the work into batches.
func (j *job) place() error {
	size := uint64(0)
	take := func(n int) cuda.Pointer {
		p := j.x.arena + cuda.Pointer(size)
		size += uint64(aligned(n, 256))
		return p
	}
	j.first = take(4 * len(j.y.first))
	j.states = take(j.cells() * int(unsafe.Sizeof(kernels.State{})))
	j.result = take(j.cells() * 8)
	j.counts = take(len(j.y.tiles) * lanes * int(unsafe.Sizeof(kernels.SeriesCounts{})))
	j.fault = take(8)
	j.reads = take(2 * 8 * j.l.Grid.Steps)
	if size >= j.x.memory {
		return &Unsuited{"its groups, at every step, need more memory than the executor has on the device"}
	}
	j.rest = j.x.arena + cuda.Pointer(size)
	j.each = int((j.x.memory-size)/uint64(len(j.x.slots))) &^ 255
	var err error
	j.inputs, err = j.y.batches(j.l.Grid.Steps, len(j.x.slots[0].staging), min(j.each, maxBatch))
	if err != nil && j.each > maxBatch {
		j.inputs, err = j.y.batches(j.l.Grid.Steps, len(j.x.slots[0].staging), j.each)
	}
	if err != nil {
		return err
	}
	j.steps.Stretch = j.stretch()
	return nil
}

// stretch is the number of steps that a thread of a window kernel computes: as
// many as leave enough threads for the device.
func (j *job) stretch() uint32 {
	series := uint32(0)
	for _, in := range j.inputs {
		series = max(series, uint32(in.to-in.from)*lanes)
	}
	parts := max(1, j.x.stretchGoal/series)
	n := max(16, (j.steps.Count+parts-1)/parts)
	return uint32(aligned(int(n), kernels.WindowAbreast))
}

// begin prepares the tables.
func (j *job) begin(c *cuda.Context) error {
	s := j.x.tables
	for _, p := range []struct {
		at cuda.Pointer
		v  byte
		n  int
	}{
		{j.states, 0, j.cells() * int(unsafe.Sizeof(kernels.State{}))},
		{j.counts, 0, len(j.y.tiles) * lanes * int(unsafe.Sizeof(kernels.SeriesCounts{}))},
		{j.fault, 0xFF, 8},
		{j.reads, 0, 2 * 8 * j.l.Grid.Steps},
	} {
		if err := c.Set(p.at, p.v, uint64(p.n), s); err != nil {
			return err
		}
	}
	if err := c.CopyIn(j.first, bytesOf(j.y.first), s); err != nil {
		return err
	}
	return c.Record(j.x.ready, s)
}

// ahead is the number of batches that are put together at once, so that the
// cores need not wait for the last of them to be done with a batch.
const ahead = 2

// batches puts all batches on their way, in their order.
func (j *job) batches() (err error) {
	filled := make([]chan error, len(j.inputs))
	next := 0 // the first that is not being put together
	fill := func() {
		if next == len(filled) {
			return
		}
		b := next
		filled[b] = make(chan error, 1)
		go func() { filled[b] <- j.fill(b) }()
		next++
	}
	for range ahead {
		fill()
	}
	for b := 0; b < next; b++ {
		if failed := <-filled[b]; err == nil {
			err = failed
		}
		if err == nil {
			err = j.l.Done()
		}
		if err != nil {
			continue // until nobody uses the staging memory
		}
		err = j.x.dev.Do(func(c *cuda.Context) error { return j.enqueue(c, b, j.inputs[b], j.slot(b)) })
		if err == nil {
			fill()
		}
	}
	return err
}

func (j *job) slot(b int) *slot { return j.x.slots[b%len(j.x.slots)] }

// fill puts batch b together.
func (j *job) fill(b int) error {
	slot := j.slot(b)
	if b >= len(j.x.slots) {
		if err := j.x.dev.Do(func(c *cuda.Context) error { return c.WaitReached(slot.copied) }); err != nil {
			return err
		}
	}
	var bases []uint64
	if j.in != nil {
		bases = j.in.bases
	}
	j.y.fill(j.inputs[b], slot.staging, bases)
	return nil
}

// onDevice is where a batch lies on the device.
type onDevice struct {
	Batch
	base   cuda.Pointer // of what is copied in
	places Places
	out    Output // of the window kernel

	suffix, prefix cuda.Pointer // see WindowPanes
}

func (j *job) onDevice(b int, in input) *onDevice {
	base := j.rest + cuda.Pointer(b%len(j.x.slots)*j.each)
	made, o := base+cuda.Pointer(in.size), newOutput(in, j.l.Grid.Steps, j.y.panes)
	at := func(p cuda.Pointer, s section) cuda.Pointer { return p + cuda.Pointer(s.at) }
	d := &onDevice{base: base, places: j.y.places(in), suffix: at(made, o.suffix), prefix: at(made, o.prefix)}
	d.Batch = Batch{
		Slab: at(base, in.bytes), Refs: at(base, in.refs), Mixed: j.l.Selection.Has(chunkenc.EncXOR2), Chunks: uint32(in.total.positions * lanes),
		First: at(base, in.first), Tiles: uint32(in.to - in.from),
		Columns: Columns{Rows: at(base, in.rows), Times: at(made, o.times), Values: at(made, o.values)},
		Decoded: at(made, o.decoded),
	}
	if j.in != nil {
		d.Slab = j.in.at
	}
	d.out = Output{
		Values: at(made, o.windows), Reads: at(made, o.reads),
		Counts: j.counts + cuda.Pointer(d.places.Base)*cuda.Pointer(unsafe.Sizeof(kernels.SeriesCounts{})),
	}
	return d
}

// enqueue puts the work on a batch on its slot's stream.
func (j *job) enqueue(c *cuda.Context, b int, in input, slot *slot) error {
	s, d := slot.stream, j.onDevice(b, in)
	work := []func() error{
		func() error { return c.WaitEvent(s, j.x.ready) },
		func() error { return c.CopyIn(d.base, slot.staging[:in.size], s) },
		func() error { return c.Record(slot.copied, s) },
		func() error { return j.decode(c, s, b, d) },
		func() error { return j.window(c, s, d) },
		func() error { return j.read(c, s, d) },
		func() error {
			if j.folded == 0 {
				return nil
			}
			return c.WaitEvent(s, j.folded)
		},
		func() error { return j.fold(c, s, d) },
		func() error { return c.Record(slot.folded, s) },
	}
	for _, f := range work {
		if err := f(); err != nil {
			return err
		}
	}
	j.folded = slot.folded
	return nil
}

func (j *job) decode(c *cuda.Context, s cuda.Stream, b int, d *onDevice) error {
	if d.Chunks == 0 {
		return nil
	}
	return j.x.k.DecodeSeries(c, s, &d.Batch, j.l.Window.Func != plan.Last, j.fault, uint64(b)<<40)
}

// read puts counting the samples that each step reads on a stream.
func (j *job) read(c *cuda.Context, s cuda.Stream, d *onDevice) error {
	n := j.steps.Count
	return j.x.k.StepReads(c, s, d.out.Reads, d.Tiles, n, j.reads, j.reads+cuda.Pointer(8*n))
}

func (j *job) fold(c *cuda.Context, s cuda.Stream, d *onDevice) error {
	return j.x.k.GroupFold(c, s, d.out.Values, j.steps.Count, j.first, d.places, j.op, j.states)
}

// results waits for the work and fetches what came of it.
func (j *job) results(reads []int64) (values []float64, counts []kernels.SeriesCounts, err error) {
	fault := []uint64{0}
	values = make([]float64, j.cells())
	counts = make([]kernels.SeriesCounts, len(j.y.series))
	err = j.x.dev.Do(func(c *cuda.Context) error {
		s := j.x.tables
		if err := c.WaitEvent(s, j.folded); err != nil {
			return err
		}
		if err := j.x.k.GroupResult(c, s, j.states, uint64(j.cells()), j.op, j.result); err != nil {
			return err
		}
		for _, f := range []struct {
			to []byte
			at cuda.Pointer
		}{{bytesOf(fault), j.fault}, {bytesOf(values), j.result}, {bytesOf(counts), j.counts}, {bytesOf(reads), j.reads}} {
			if err := j.fetch(c, f.to, f.at); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && fault[0] != kernels.NoFault {
		err = j.corrupt(fault[0])
	}
	return values, counts, err
}

// fetch copies from the device by way of the staging memory, which nothing uses
// any more once the first wait is over.
func (j *job) fetch(c *cuda.Context, to []byte, at cuda.Pointer) error {
	s := j.x.tables
	if err := c.Wait(s); err != nil {
		return err
	}
	for len(to) > 0 {
		staging := j.x.slots[0].staging
		staging = staging[:min(len(staging), len(to))]
		if err := c.CopyOut(staging, at, s); err != nil {
			return err
		}
		if err := c.Wait(s); err != nil {
			return err
		}
		n := copy(to, staging)
		to, at = to[n:], at+cuda.Pointer(n)
	}
	return nil
}

// corrupt is the error for the first of the corrupt chunks, or for what no kernel
// can tell.
func (j *job) corrupt(fault uint64) error {
	if fault == kernels.MixedZeros {
		return &Unsuited{"a quantile depends on how zeros of either sign are sorted"}
	}
	j.l.Selection.Discard()
	series, c := j.y.place(j.inputs[fault>>40], int(fault>>8&(1<<32-1)))
	status := kernels.Status(fault & 255)
	err := status.Err()
	if status == kernels.Outside {
		err = fmt.Errorf("%w of %d to %d ms", err, c.MinT, c.MaxT)
	}
	return &selection.CorruptError{Series: j.l.Selection.Labels(series), MinT: c.MinT, Err: err}
}

// bytesOf views elements as bytes.
func bytesOf[T any](s []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(one)))
}
