package planner

import (
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// TestEveryFunction: each function of range vectors that has a definition is planned.
func TestEveryFunction(t *testing.T) {
	for _, name := range window.Names() {
		t.Run(name, func(t *testing.T) {
			f := window.Named(name)
			args, types := "m[5m]", []parser.ValueType{parser.ValueTypeMatrix}
			switch f.Param {
			case plan.ParamBefore:
				args, types = "0.5, "+args, append([]parser.ValueType{parser.ValueTypeScalar}, types...)
			case plan.ParamAfter:
				args, types = args+", 0.5", append(types, parser.ValueTypeScalar)
			case plan.TwoParamsAfter:
				args, types = args+", 0.5, 0.5", append(types, parser.ValueTypeScalar, parser.ValueTypeScalar)
			}
			if parser.Functions[name] == nil { // promwarp's own, of which Prometheus's parser does not know
				parser.Functions[name] = &parser.Function{Name: name, ArgTypes: types, ReturnType: parser.ValueTypeVector}
				defer delete(parser.Functions, name)
			}
			parts, _ := planned(t, prepare(t, name+"("+args+")", 0, 600, 60), env())
			require.Len(t, parts, 1)
			require.Same(t, f, parts[0].Node.(*plan.Window).Func)
		})
	}
}
