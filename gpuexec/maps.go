package gpuexec

import (
	"math"
	"unsafe"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// deviceMap is a map as the kernel computes it.
type deviceMap struct {
	f     abi.Map
	truth bool
	a, b  float64
}

// plainMaps are the functions without constants.
var plainMaps = map[string]abi.Map{
	"neg": abi.Negate, "abs": abi.Abs, "ceil": abi.Ceil, "floor": abi.Floor, "sgn": abi.Sign, "sqrt": abi.Root,
}

// operatorMaps are the operators by name: with the constant on the right, and on the
// left.
var operatorMaps = map[string][2]abi.Map{
	"+": {abi.Add, abi.Add}, "-": {abi.Subtract, abi.SubtractFrom},
	"*": {abi.Multiply, abi.Multiply}, "/": {abi.Divide, abi.DivideInto},
	"==": {abi.Equal, abi.Equal}, "!=": {abi.Unequal, abi.Unequal},
	">": {abi.Greater, abi.Less}, "<": {abi.Less, abi.Greater},
	">=": {abi.AtLeast, abi.AtMost}, "<=": {abi.AtMost, abi.AtLeast},
}

// mapOf is a map for the device, if its bits are the same there. Those of
// logarithms, powers and angles are not.
func mapOf(m *plan.Map) (d deviceMap, ok bool) {
	if f, ok := plainMaps[m.Func.Name]; ok {
		return deviceMap{f: f}, true
	}
	if f, ok := operatorMaps[m.Func.Name]; ok {
		d = deviceMap{f: f[0], truth: m.Bool, a: m.Args[0]}
		if m.Swap {
			d.f = f[1]
		}
		return d, true
	}
	switch m.Func.Name {
	case "round":
		return deviceMap{f: abi.Round, a: 1.0 / m.Args[0]}, true
	case "clamp":
		return deviceMap{f: abi.Clamp, a: m.Args[0], b: m.Args[1]}, true
	case "clamp_min":
		return deviceMap{f: abi.Clamp, a: m.Args[0], b: math.Inf(1)}, true
	case "clamp_max":
		return deviceMap{f: abi.Clamp, a: math.Inf(-1), b: m.Args[0]}, true
	case "deg":
		return deviceMap{f: abi.Scale, a: 180, b: math.Pi}, true
	case "rad":
		return deviceMap{f: abi.Scale, a: math.Pi, b: 180}, true
	}
	return d, false
}

// apply puts the maps of a batch's values on a stream.
func (j *job) apply(q launch.Queue, d *onDevice) error {
	each := j.places() * int(unsafe.Sizeof(uint32(0)))
	for i, m := range j.maps {
		kept := j.at(j.kept) + cuda.Pointer(i*each+d.Base*int(unsafe.Sizeof(uint32(0))))
		if err := q.MapValues(d.out.Values, d.Tiles, j.steps.Count, m.f, m.truth, m.a, m.b, kept); err != nil {
			return err
		}
	}
	return nil
}
