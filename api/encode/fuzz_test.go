package encode

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// FuzzMatrix reads two series' points, 9 bytes each, from its input: the low
// byte says how the time goes on and to which series the point belongs, the
// others are the value.
func FuzzMatrix(f *testing.F) {
	f.Add([]byte(nil), "", "", int64(0), int64(0))
	for i, s := range oddStrings {
		var b []byte
		for i, v := range oddFloats[20*i : 20*i+20] {
			b = append(b, byte(i))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		f.Add(b, s, s, int64(1435781451781), int64(15_000))
		f.Add(b, s, "v", int64(math.MinInt64), int64(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, name, value string, start, step int64) {
		m := promql.Matrix{{Metric: labels.FromStrings(name, value)}, {Metric: labels.FromStrings("b", value)}}
		var v promql.Vector
		at := [2]int64{start, start}
		for len(data) >= 9 {
			how, x := data[0], math.Float64frombits(binary.LittleEndian.Uint64(data[1:]))
			data = data[9:]
			i := int(how & 1)
			m[i].Floats = append(m[i].Floats, promql.FPoint{T: at[i], F: x})
			v = append(v, promql.Sample{T: at[i], F: x, Metric: m[i].Metric})
			at[i] += step
			if how > 200 {
				at[i] += int64(how) - 230
			}
		}
		for _, v := range []parser.Value{m, v} {
			check(t, respond(v), string(v.Type()))
		}
	})
}
