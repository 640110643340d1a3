package resampling

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
)

// product is what a job makes of the states of runs.
type product interface {
	// take takes device memory, for the device alone and then for what is fetched.
	take(j *job)
	fetched(j *job)
	// ready is called once there is a layout, and release once nothing of the job is under way.
	ready(j *job) error
	release(j *job)
	// tileBytes is what a tile of a batch takes besides its states.
	tileBytes(j *job) (int, error)
	begin(j *job, c *cuda.Context, s cuda.Stream) error
	// arrange says where what is made of a slot's batch goes, and back puts copying it there on the
	// slot's stream.
	arrange(j *job, s *pipeline.Slot)
	back(j *job, c *cuda.Context, s *pipeline.Slot) error
	// stays has what is made of a source's runs of a batch go where it stays, if it does.
	stays(j *job, s int, b *pipeline.Batch, m *made)
	// made puts what is made of a batch's series on a queue, reduce what is made of its groups.
	made(j *job, q launch.Queue, b *pipeline.Batch) error
	reduce(j *job, q launch.Queue, b *pipeline.Batch) error
	deliver(j *job, s *pipeline.Slot) error
	fetch(j *job) ([]byte, error)
	end(j *job, c *cuda.Context, s cuda.Stream) error
	results(j *job, fetched []byte) error
}
