package engine

import (
	"math"

	"github.com/promwarp/promwarp/plan"
)

// In all tests of this package values change as soon as they are released, so that an
// answer that still looks at them is a wrong one.
func init() {
	spoil = func(m *plan.Matrix) {
		for _, row := range m.Rows {
			for k := range row.Values {
				row.Values[k] = math.Float64frombits(0xDEAD_BEEF_0BAD_CAFE)
			}
		}
	}
}
