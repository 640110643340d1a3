package gpuexec

import (
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
)

// product is what a job makes of the values of its windows. Rows go back to the host batch by
// batch. What reduces values to fewer stays on the device and is fetched behind the last batch.
// The methods are in the order in which a job calls them.
type product interface {
	// own and out take device memory: for the device alone, and for what is fetched.
	own(j *job)
	out(j *job)
	// room notes what a batch takes besides its values.
	room(j *job, r *layout.Room) error
	// begin puts preparing the memory on a stream.
	begin(j *job, c *cuda.Context, s cuda.Stream) error

	// arrange says where the values of a slot's batch go, and what is copied back of them.
	arrange(j *job, s *pipeline.Slot)
	// count puts adding up the samples that each step reads on a stream, reduce what is made
	// of a batch's values, and back copying it back as far as arrange said where to.
	count(j *job, q launch.Queue, d *pipeline.Batch) error
	reduce(j *job, q launch.Queue, d *pipeline.Batch) error
	back(j *job, c *cuda.Context, s *pipeline.Slot) error
	// deliver hands on what came of a slot's batch, which is done.
	deliver(j *job, s *pipeline.Slot) error

	// fetch waits for all batches and returns what is fetched behind them.
	fetch(j *job) ([]byte, error)
	// end puts what is left to do behind the last batch on a stream, for fetch.
	end(j *job, c *cuda.Context, s cuda.Stream) error
	// results says what was fetched.
	results(j *job, fetched []byte, to *cpuexec.Results)
	// wait returns once nobody consumes what was handed on any more.
	wait() error
}

// productOf is the product that a leaf asks for.
func productOf(l *cpuexec.Leaf) product {
	if l.Aggregate == nil {
		return &rows{}
	}
	switch p := aggregate.Of(l.Aggregate.Func).GPU; p.Kernel {
	case abi.ByRank:
		return &heaps{bottom: p.Name == "Bottom"}
	case abi.ByQuantile:
		return &quantiles{}
	default:
		return &states{op: p.Number()}
	}
}

// reduced has what all products do alike that are fetched behind the last batch.
type reduced struct{}

func (reduced) room(*job, *layout.Room) error { return nil }
func (reduced) arrange(*job, *pipeline.Slot)  {}

func (reduced) count(j *job, q launch.Queue, d *pipeline.Batch) error {
	n, at := j.steps.Count, j.At(j.reads)
	return q.StepReads(d.Out.Reads, d.Tiles, n, at, at+cuda.Pointer(8*n))
}

func (reduced) back(*job, *cuda.Context, *pipeline.Slot) error { return nil }
func (reduced) deliver(*job, *pipeline.Slot) error             { return nil }
func (reduced) fetch(j *job) ([]byte, error)                   { return j.FetchAll() }
func (reduced) wait() error                                    { return nil }
