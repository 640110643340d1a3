package resampling

import (
	"errors"
	"fmt"
	"slices"
	"time"

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

// programsOf are the programs of a task, with the kernels that this needs, which are not loaded.
func programsOf(m *pipeline.Machine, t *resample.Task) programs {
	all := programs{}
	need := func(d *aggregate.Definition, kernels ...launch.Kernel) {
		code, _ := custom.PortableOf(d)
		if code == nil {
			return
		}
		p := all[d]
		if p == nil {
			translate := func(kernel []byte) []byte { return ptx.Translate(kernel, code) }
			p = &program{Portable: code, launched: launch.Program{Hash: code.Hash(), Translate: translate}}
			all[d] = p
		}
		for _, k := range kernels {
			if !slices.Contains(p.launched.Kernels, k) {
				p.launched.Kernels = append(p.launched.Kernels, k)
			}
		}
	}
	merging := []launch.Kernel{"custom_merge", "custom_values"}
	runs := launch.Kernel("custom_runs")
	if fuses(m, t, sourcesOf(t, nil)) {
		runs = "custom_fused"
	}
	for _, a := range t.Aggregates {
		if need(a.Definition, runs); merges(t) {
			need(a.Definition, merging...)
		}
	}
	if t.Reaggregate != nil {
		need(t.Reaggregate, merging...)
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

// Compiles is about how long a driver takes to compile the kernels that a task needs and a machine
// lacks, which compile does; 0 if it lacks none.
func Compiles(m *pipeline.Machine, t *resample.Task) (wait time.Duration, compile func() error) {
	all := programsOf(m, t)
	for _, of := range all {
		if !m.Programs.Loaded(&of.launched) {
			wait = 300 * time.Millisecond
		}
	}
	if !m.Kernels.Loaded(launch.Resample...) {
		wait = 10 * time.Second
	}
	return wait, func() error {
		if err := all.hold(m); err != nil {
			return err
		}
		return all.release(m)
	}
}
