package gpuexec

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/kernels"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// task is a leaf to compute.
type task struct {
	l       *cpuexec.Leaf
	consume func(cpuexec.Rows) error // takes the rows of a window alone
	stages  *Stages                  // what it took is noted here, as far as it came
}

// job is a job under way.
type job struct {
	task
	x       *Executor
	seat    *seat
	f       function
	maps    []deviceMap
	steps   Steps
	y       *layout
	panes   *Panes // or nil
	fuses   bool   // decoding and windows are one kernel
	product product

	// Device memory, from the seat's beginning. From outcome on it is fetched at the
	// end.
	outcome       int
	counts, fault section
	kept          section      // uint32, one a map and place
	reads         section      // uint64, two a step: samples in the windows, and those no earlier step had
	size          int          // of all that
	rest          cuda.Pointer // for the slots, each so many bytes
	each          int

	total     tileSize   // of the batches that were put on their way
	last      cuda.Event // of the last of them, or 0
	described int64      // bytes that describe copied
	timing    timing
}

// product is what a job makes of the values of its windows.
type product interface {
	// own and out take device memory: for the device alone, and for what is fetched at
	// the end.
	own(j *job, take func(bytes int) section)
	out(j *job, take func(bytes int) section)
	// begin, add and end put preparing that, adding a batch, and what is left to do
	// on a stream.
	begin(j *job, c *cuda.Context, s cuda.Stream) error
	add(j *job, c *cuda.Context, s cuda.Stream, d *onDevice) error
	end(j *job, c *cuda.Context, s cuda.Stream) error
	// results says what was fetched.
	results(j *job, fetched []byte, to *cpuexec.Results)
}

// The device counts samples and marks absent values as the cores read them.
var (
	_ = cpuexec.SeriesCounts(kernels.SeriesCounts{})
	_ = [1]int{}[kernels.Absent-cpuexec.Absent]
)

// productOf is the product that a leaf asks for.
func productOf(l *cpuexec.Leaf) product {
	if l.Aggregate == nil {
		return &rows{}
	}
	switch name := l.Aggregate.Func.Name; name {
	case "topk", "bottomk":
		return &heaps{bottom: name == "bottomk"}
	case "quantile":
		return &quantiles{}
	default:
		return &states{op: operators[name]}
	}
}

func newJob(x *Executor, s *seat, t task) *job {
	l := t.l
	j := &job{
		task: t, x: x, seat: s,
		f: functions[l.Window.Func.Name], steps: steps(l), product: productOf(l),
	}
	for _, m := range l.Maps {
		d, _ := mapOf(m)
		j.maps = append(j.maps, d)
	}
	j.panes = j.f.panes(j.steps)
	j.fuses = j.panes == nil && j.f.fuses(l, j.steps)
	j.stages.Fused = j.fuses
	return j
}

// run computes the leaf. Its outcome refers to no memory of the seat.
func (j *job) run() (o cpuexec.Outcome, err error) {
	if len(j.l.GroupOf) == 0 || j.l.Grid.Steps == 0 {
		return o, nil
	}
	if err := j.place(); err != nil {
		return o, err
	}
	err = j.x.dev.Do(j.begin)
	if err == nil {
		err = j.batches()
	}
	var out []byte
	if err == nil {
		out, err = j.results()
	}
	if ended := j.end(err != nil); ended != nil {
		err = errors.Join(err, ended)
	}
	runtime.KeepAlive(j.l)
	if err != nil {
		return o, err
	}
	return j.finish(out), nil
}

// finish is the outcome of what was fetched, which is nothing for rows.
func (j *job) finish(fetched []byte) (o cpuexec.Outcome) {
	o.Work = plan.Work{Chunks: j.total.chunks, Samples: j.total.samples, Bytes: int64(j.total.encoded)}
	if fetched == nil {
		return o
	}
	r := &o.Results
	r.Counts = bySeries(j, view[cpuexec.SeriesCounts](j, fetched, j.counts))
	kept := view[uint32](j, fetched, j.kept)
	r.Kept = make([][]uint32, len(j.l.Maps))
	for m, n := range j.l.Maps {
		if n.Filters() {
			r.Kept[m] = bySeries(j, kept[m*j.places():])
		}
	}
	reads := slices.Clone(view[int64](j, fetched, j.reads))
	r.All, r.Fresh = reads[:j.l.Grid.Steps], reads[j.l.Grid.Steps:]
	j.product.results(j, fetched, r)
	return o
}

// bySeries copies what is at the place of each series, in the order of the series.
func bySeries[T any](j *job, at []T) []T {
	all := make([]T, len(j.y.places))
	const block = 8192
	parallel.For((len(all)+block-1)/block, func(k int) {
		for i := k * block; i < min((k+1)*block, len(all)); i++ {
			all[i] = at[j.y.places[i]]
		}
	})
	return all
}

// cells is the number of groups times steps.
func (j *job) cells() int { return j.l.Groups * j.l.Grid.Steps }

// places is the number of places of all batches.
func (j *job) places() int { return aligned(len(j.l.GroupOf), lanes) }

// at is where a section of the seat's memory is.
func (j *job) at(s section) cuda.Pointer { return j.seat.at + cuda.Pointer(s.at) }

// view is a section among what was fetched.
func view[T any](j *job, fetched []byte, s section) []T {
	return as[T](fetched, section{s.at - j.outcome, s.size})
}

// goodBatch is the device memory in bytes that a batch should take: enough to fill a
// device, and little enough that there are several to overlap.
const goodBatch = 640 << 20

// place divides the seat's memory and finds the layout.
func (j *job) place() error {
	take := func(bytes int) section {
		s := section{j.size, bytes}
		j.size += aligned(bytes, 256)
		return s
	}
	j.product.own(j, take)
	j.outcome = j.size
	j.product.out(j, take)
	j.counts = take(j.places() * int(unsafe.Sizeof(kernels.SeriesCounts{})))
	j.kept = take(len(j.maps) * j.places() * int(unsafe.Sizeof(uint32(0))))
	j.fault = take(8)
	j.reads = take(2 * 8 * j.l.Grid.Steps)
	if uint64(j.size) >= j.seat.size {
		// The values of the windows may fit nevertheless, batch by batch.
		return &Unsuited{Reason: "its groups, at every step, need more memory than the executor has on the device", WindowOnly: true}
	}
	j.rest = j.seat.at + cuda.Pointer(j.size)
	j.each = int((j.seat.size-uint64(j.size))/uint64(len(j.seat.slots))) &^ 255
	r := room{tables: len(j.seat.slots[0].staging), device: j.each, goal: min(j.each, j.x.goodBatch), steps: j.l.Grid.Steps, fuses: j.fuses}
	if j.panes != nil {
		r.panes = j.panes.bytes(j.f.op)
	}
	if p, ok := j.product.(*rows); ok {
		if err := p.cut(j, len(j.seat.slots[0].staging)); err != nil {
			return err
		}
		r.pieces = p.tileBytes(j)
	}
	j.y = layoutOf(j.x, j.l, r)
	_, err := j.y.batch(0)
	return err
}

// stretch is the number of steps that a thread of a window kernel computes: as
// many as leave enough threads for the device.
func (j *job) stretch(b *batch) uint32 {
	parts := max(1, j.x.stretchGoal/uint32(len(b.tiles)*lanes))
	n := max(16, (j.steps.Count+parts-1)/parts)
	return uint32(aligned(int(n), kernels.WindowAbreast))
}

// begin prepares what batches add to.
func (j *job) begin(c *cuda.Context) error {
	s := j.seat.tables
	if err := j.product.begin(j, c, s); err != nil {
		return err
	}
	for _, p := range []struct {
		at section
		v  byte
	}{{j.counts, 0}, {j.kept, 0}, {j.fault, 0xFF}, {j.reads, 0}} {
		if err := j.clear(c, s, p.at, p.v); err != nil {
			return err
		}
	}
	return c.Record(j.seat.ready, s)
}

// clear puts filling a section on a stream.
func (j *job) clear(c *cuda.Context, s cuda.Stream, at section, v byte) error {
	if at.size == 0 {
		return nil
	}
	return c.Set(j.at(at), v, uint64(at.size), s)
}

// upload copies a table to a section. What is on the stream must come behind all
// batches that are under way, whose staging memory it uses.
func (j *job) upload(c *cuda.Context, s cuda.Stream, to section, table []uint32) error {
	if err := c.Wait(s); err != nil {
		return err
	}
	staging := j.seat.slots[0].staging
	from := bytesOf(table)
	for at := j.at(to); len(from) > 0; {
		n := copy(staging, from)
		if err := c.CopyIn(at, staging[:n], s); err != nil {
			return err
		}
		if err := c.Wait(s); err != nil {
			return err
		}
		from, at = from[n:], at+cuda.Pointer(n)
	}
	return nil
}

// prepared is a batch whose chunks are on the device or on their way there.
type prepared struct {
	*batch
	slot  *slot
	at    cuda.Pointer // of its tables
	bases []uint64     // device addresses of slabs, or nil if the tables are there already
}

// batches puts all batches on their way, in their order. The chunks of one are
// copied while the tables of the one before are made.
func (j *job) batches() error {
	free := make(chan *slot, len(j.seat.slots))
	for _, s := range j.seat.slots {
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
	var b *batch
	err := preparing.Do(func() (err error) { b, err = j.y.batch(n); return err })
	if b == nil || err != nil {
		return nil, err
	}
	p := &prepared{batch: b, slot: <-free}
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
		if err := c.WaitReached(s.marks[atFolded]); err != nil {
			return err
		}
		return j.timing.note(c, j.seat.ready, s, j.stages)
	})
	if err != nil {
		return err // the slot's blocks are in use until the job ends
	}
	if p, ok := j.product.(*rows); ok {
		if err := p.deliver(j, s); err != nil {
			return err
		}
	}
	j.x.store.unpin(s.pinned)
	s.free()
	return nil
}

// send puts the rest of a batch's work on its way.
func (j *job) send(p *prepared) error {
	if err := j.l.Done(); err != nil {
		return err
	}
	base := j.rest + cuda.Pointer(p.number%len(j.seat.slots)*j.each)
	if err := copying.Do(func() error { return j.x.describe(j, p, base) }); err != nil {
		return err
	}
	p.slot.busy, p.slot.batch = true, j.onDevice(p.batch, p.at, base)
	if r, ok := j.product.(*rows); ok {
		p.slot.batch.lent = r.room(j, p.slot)
	}
	if err := j.x.dev.Do(func(c *cuda.Context) error { return j.enqueue(c, p) }); err != nil {
		return err
	}
	j.total.add(p.total)
	j.stages.Batches++
	return nil
}

// onDevice is where a batch lies on the device.
type onDevice struct {
	*batch
	Batch
	groups Parts
	out    Output       // of the window kernel
	pieces cuda.Pointer // see rows
	lent   []*stretch   // that its rows go to, see rows

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
		groups: Parts{Groups: at(tables, in.groups), Starts: at(tables, in.starts), Count: uint32(len(b.groups)), Places: uint32(len(b.series))},
	}
	d.Batch = Batch{
		Slab: j.x.arena, Table: at(tables, in.table), Wide: at(tables, in.wide), Since: j.y.since(),
		Mixed: j.l.Selection.Has(chunkenc.EncXOR2), Chunks: uint32(in.total.positions * lanes),
		First: at(tables, in.first), Tiles: uint32(in.to - in.from),
		Columns: Columns{Rows: at(tables, in.rows), Times: at(made, o.times), Values: at(made, o.values)},
		Decoded: at(made, o.decoded),
	}
	d.out = Output{
		Values: at(made, o.windows), Reads: at(made, o.reads),
		Counts: j.at(j.counts) + cuda.Pointer(b.base*int(unsafe.Sizeof(kernels.SeriesCounts{}))),
	}
	if p, ok := j.product.(*quantiles); ok {
		d.out.Values = j.at(p.values) + cuda.Pointer(8*b.base*j.l.Grid.Steps)
	}
	return d
}

// enqueue puts the kernels of a batch on its slot's stream.
func (j *job) enqueue(c *cuda.Context, p *prepared) error {
	s, m, d := p.slot.stream, &p.slot.marks, p.slot.batch
	steps := j.steps
	steps.Stretch = j.stretch(p.batch)
	work := []func() error{
		func() error { return c.WaitEvent(s, j.seat.ready) },
		func() error { return c.WaitEvent(s, m[atCopied]) },
		func() error { return c.Record(m[atBegin], s) },
		func() error { return decoding.Do(func() error { return j.decode(c, s, p.number, d) }) },
		func() error { return c.Record(m[atDecoded], s) },
		func() error { return windowing.Do(func() error { return j.window(c, s, p.number, d, steps) }) },
		func() error { return windowing.Do(func() error { return j.apply(c, s, d) }) },
		func() error { return windowing.Do(func() error { return j.read(c, s, d) }) },
		func() error { return c.Record(m[atWindowed], s) },
		func() error {
			if j.last == 0 {
				return nil
			}
			return c.WaitEvent(s, j.last)
		},
		func() error { return c.Record(m[atFold], s) },
		func() error { return folding.Do(func() error { return j.product.add(j, c, s, d) }) },
		func() error { return c.Record(m[atFolded], s) },
		func() error { return j.back(c, p.slot) },
	}
	for _, f := range work {
		if err := f(); err != nil {
			return err
		}
	}
	j.last = m[atFolded]
	return nil
}

func (j *job) decode(c *cuda.Context, s cuda.Stream, b int, d *onDevice) error {
	if d.Chunks == 0 || j.fuses {
		return nil
	}
	return j.x.k.DecodeSeries(c, s, &d.Batch, !j.l.Window.Func.Instant, j.at(j.fault), uint64(b)<<40)
}

// read puts counting the samples that each step reads on a stream.
func (j *job) read(c *cuda.Context, s cuda.Stream, d *onDevice) error {
	if p, ok := j.product.(*rows); ok {
		return p.read(j, c, s, d)
	}
	n, at := j.steps.Count, j.at(j.reads)
	return j.x.k.StepReads(c, s, d.out.Reads, d.Tiles, n, at, at+cuda.Pointer(8*n))
}

// back puts copying rows back on a slot's stream, as far as there is room for them.
func (j *job) back(c *cuda.Context, s *slot) error {
	if p, ok := j.product.(*rows); ok && s.batch.lent != nil {
		return p.sendAll(j, c, s)
	}
	return nil
}

// results waits for the work and fetches what came of it: the values of each group
// and step, the counts of each place, and the fault word. They are the job's as long
// as it has its seat.
func (j *job) results() (out []byte, err error) {
	if p, ok := j.product.(*rows); ok {
		return nil, errors.Join(j.drain(), p.settle())
	}
	err = j.x.dev.Do(func(c *cuda.Context) error {
		s := j.seat.tables
		if err := c.WaitEvent(s, j.last); err != nil {
			return err
		}
		if err := c.Record(j.seat.last, s); err != nil {
			return err
		}
		if err := j.product.end(j, c, s); err != nil {
			return err
		}
		if out, err = j.fetch(c, j.seat.at+cuda.Pointer(j.outcome), j.size-j.outcome); err != nil {
			return err
		}
		took, err := c.Elapsed(j.seat.last, j.seat.ended)
		j.stages.Result = ms(took)
		return err
	})
	if err == nil {
		err = j.corrupt(view[uint64](j, out, j.fault)[0])
	}
	return out, err
}

// drain waits for the batches under way, in their order.
func (j *job) drain() error {
	slots := slices.DeleteFunc(slices.Clone(j.seat.slots), func(s *slot) bool { return !s.busy })
	slices.SortFunc(slots, func(a, b *slot) int { return a.batch.number - b.batch.number })
	for _, s := range slots {
		if err := j.empty(s); err != nil {
			return err
		}
	}
	return nil
}

// fetch copies n bytes from the device to the staging memory, which nothing uses any
// more once the first copy begins, and on from there if it is too small.
func (j *job) fetch(c *cuda.Context, at cuda.Pointer, n int) (out []byte, err error) {
	s, staging := j.seat.tables, j.seat.slots[0].staging
	if n > len(staging) {
		out = make([]byte, 0, n)
	}
	for n > 0 {
		part := staging[:min(len(staging), n)]
		if err := c.CopyOut(part, at, s); err != nil {
			return nil, err
		}
		if err := c.Record(j.seat.ended, s); err != nil {
			return nil, err
		}
		if err := c.Wait(s); err != nil {
			return nil, err
		}
		if out == nil {
			return part, nil
		}
		out = append(out, part...)
		n, at = n-len(part), at+cuda.Pointer(len(part))
	}
	return out, nil
}

// end waits until nothing of the job is under way any more, and lets go of what it
// used.
func (j *job) end(failed bool) error {
	var errs []error
	if p, ok := j.product.(*rows); ok {
		_ = p.settle() // it failed for another reason
	}
	if failed {
		errs = append(errs, j.x.dev.Do(func(c *cuda.Context) error {
			var errs []error
			for _, s := range append([]cuda.Stream{j.x.feeder.stream, j.seat.tables}, j.streams()...) {
				errs = append(errs, c.Wait(s))
			}
			return errors.Join(errs...)
		}))
	}
	for _, s := range j.seat.slots {
		if !failed {
			errs = append(errs, j.empty(s))
		}
		if s.batch != nil {
			j.x.lender.giveBack(s.batch.lent, errors.Join(errs...) == nil)
		}
		j.x.store.unpin(s.pinned)
		s.free()
	}
	j.stages.CopiedBytes += j.described
	j.timing.finish(j.stages)
	return errors.Join(errs...)
}

func (j *job) streams() (all []cuda.Stream) {
	for _, s := range j.seat.slots {
		all = append(all, s.stream)
	}
	return all
}

// corrupt is the error for the first of the corrupt chunks, if there is one, or for
// what no kernel can tell.
func (j *job) corrupt(fault uint64) error {
	if fault == kernels.NoFault {
		return nil
	}
	if fault == kernels.MixedZeros {
		return &Unsuited{Reason: "a quantile depends on how zeros of either sign are sorted"}
	}
	j.l.Selection.Discard()
	b, err := j.y.batch(int(fault >> 40))
	if err != nil {
		return err
	}
	series, c := j.y.place(b, int(fault>>8&(1<<32-1)))
	status := kernels.Status(fault & 255)
	err = status.Err()
	if status == kernels.Outside {
		err = fmt.Errorf("%w of %d to %d ms", err, c.MinT, c.MaxT)
	}
	return &selection.CorruptError{Series: j.l.Selection.Labels(series), MinT: c.MinT, Err: err}
}
