package gpuexec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/resample/custom/ptx"
)

// program is a custom aggregate on the device.
type program struct {
	*custom.Portable
	launched launch.Program
	kernels  *launch.Set // while they are held
}

// programs are those of a task, by their definitions.
type programs map[*aggregate.Definition]*program

// programsOf are the programs of a task, which are not loaded: each with all kernels that it can be put
// into, of which the driver compiles several at once.
func programsOf(t *resample.Task) programs {
	all := programs{}
	add := func(d *aggregate.Definition) {
		code, _ := custom.PortableOf(d)
		if code == nil {
			return
		}
		kernels := launch.Custom
		if code.Merge == nil {
			kernels = slices.DeleteFunc(slices.Clone(kernels), func(k launch.Kernel) bool { return k == "custom_merge" })
		}
		translate := func(kernel []byte) []byte { return ptx.Translate(kernel, code) }
		all[d] = &program{Portable: code, launched: launch.Program{Hash: code.Hash(), Kernels: kernels, Translate: translate}}
	}
	for _, a := range t.Aggregates {
		add(a.Definition)
	}
	if t.Reaggregate != nil {
		add(t.Reaggregate)
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
			err = &pipeline.Unsuited{Reason: fmt.Sprintf("a custom aggregate cannot be loaded: %v", err)}
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
