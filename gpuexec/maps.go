package gpuexec

import (
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
)

// deviceMap is a map as the kernel computes it.
type deviceMap struct {
	f     uint32 // its number
	truth bool
	a, b  float64
}

// mapOf is a map for the device, if its bits are the same there.
func mapOf(m *plan.Map) (d deviceMap, ok bool) {
	f := vector.Of(m.Func)
	if f.NoGPU != "" {
		return d, false
	}
	policy := f.GPU
	if m.Swap && f.Swapped.Name != "" {
		policy = f.Swapped
	}
	d = deviceMap{f: policy.Number(), truth: m.Bool}
	switch {
	case f.Constants != nil:
		d.a, d.b = f.Constants(m.Args)
	case len(m.Args) > 0:
		d.a = m.Args[0]
	}
	return d, true
}

// apply puts the maps of a batch's values on a stream.
func (j *job) apply(q launch.Queue, d *pipeline.Batch) error {
	each := j.Places() * int(unsafe.Sizeof(uint32(0)))
	for i, m := range j.maps {
		kept := j.At(j.kept) + cuda.Pointer(i*each+d.Base*int(unsafe.Sizeof(uint32(0))))
		if err := q.MapValues(d.Out.Values, d.Tiles, j.steps.Count, m.f, m.truth, m.a, m.b, kept); err != nil {
			return err
		}
	}
	return nil
}
