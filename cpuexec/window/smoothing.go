package window

import (
	"fmt"

	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var _ = define(&Function{
	WindowFunc: plan.WindowFunc{Name: "double_exponential_smoothing", Param: plan.TwoParamsAfter},
	Plain:      (*Window).smoothed,
	Ordinary:   func(factor, trend float64) bool { return factor > 0 && factor < 1 && trend > 0 && trend < 1 },
	Outside:    "a smoothing or trend factor outside 0 to 1",
	Check: func(factor, trend float64) error {
		switch {
		case factor <= 0 || factor >= 1:
			return fmt.Errorf("invalid smoothing factor. Expected: 0 < sf < 1, got: %f", factor)
		case trend <= 0 || trend >= 1:
			return fmt.Errorf("invalid trend factor. Expected: 0 < tf < 1, got: %f", trend)
		}
		return nil
	},
	GPU: abi.Policy{Kernel: abi.ByStatistic, Name: "Smoothing"},
})

// smoothed is an exponential average of the values, by the smoothing factor, that follows
// their trend, itself smoothed by the trend factor. Both are between 0 and 1.
func (w *Window) smoothed() (float64, bool) {
	vs := w.Values
	if len(vs) < 2 {
		return 0, false
	}
	before, level, trend := 0.0, vs[0], vs[1]-vs[0]
	for k, v := range vs[1:] {
		if k > 0 {
			trend = float64(w.Trend*(level-before)) + float64((1-w.Trend)*trend)
		}
		before, level = level, float64(w.Param*v)+float64((1-w.Param)*(level+trend))
	}
	return level, true
}
