package resampling

import (
	"errors"
	"fmt"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/resample/custom/ptx"
)

// mostPrograms is the most custom aggregates of a request: each is a pass over the samples.
const mostPrograms = 16

// program is a custom aggregate on the device.
type program struct {
	*custom.Portable
	launched launch.Program
	kernels  *launch.Set // while they are held
}

// programs are those of a task, by their definitions.
type programs map[*aggregate.Definition]*program

// definitionsOf are what a plan makes of samples, and of that again.
func definitionsOf(p *resample.Plan) (all []*aggregate.Definition) {
	for _, a := range p.Aggregates {
		all = append(all, a.Definition)
	}
	if p.Reaggregate != nil {
		all = append(all, p.Reaggregate)
	}
	return all
}

// programsOf are the programs of a plan, which are not loaded.
func programsOf(p *resample.Plan) programs {
	all := programs{}
	for _, d := range definitionsOf(p) {
		if code, _ := custom.PortableOf(d); code != nil && all[d] == nil {
			translate := func(kernel []byte) []byte { return ptx.Translate(kernel, code) }
			all[d] = &program{Portable: code, launched: launch.Program{
				Hash: code.Hash(), Kernels: launch.CustomKernels(code.Merge != nil), Translate: translate,
			}}
		}
	}
	return all
}

// hold has programs be loaded until they are released.
func (all programs) hold(m *pipeline.Machine) (err error) {
	for _, p := range all {
		if p.kernels, err = m.Programs.Hold(&p.launched); err == nil {
			continue
		}
		if !cuda.Lost(err) {
			err = unsuited(fmt.Sprintf("a custom aggregate cannot be loaded: %v", err))
		}
		return errors.Join(err, all.release(m))
	}
	return nil
}

// release lets go those programs that are loaded.
func (all programs) release(m *pipeline.Machine) error {
	var errs []error
	for _, p := range all {
		if p.kernels != nil {
			errs = append(errs, m.Programs.Release(&p.launched))
		}
	}
	return errors.Join(errs...)
}

// Load loads the kernels that a plan needs and a machine lacks, for the requests to come.
func Load(m *pipeline.Machine, p *resample.Plan) error {
	all := programsOf(p)
	if err := all.hold(m); err != nil {
		return err
	}
	return all.release(m)
}

// Compiles reports whether a machine lacks some kernels that a plan needs.
func Compiles(m *pipeline.Machine, p *resample.Plan) bool {
	for _, of := range programsOf(p) {
		if !m.Programs.Loaded(&of.launched) {
			return true
		}
	}
	return false
}
