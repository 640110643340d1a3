package window

import (
	"fmt"
	"math"

	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var _ = define(&Function{
	WindowFunc: plan.WindowFunc{Name: "double_exponential_smoothing", Param: plan.TwoParamsAfter},
	Plain:      (*Window).smoothed,
	Fast:       (*Evaluator).smoothings,
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
	vs, factor, trendFactor := w.Values, w.Param, w.Trend
	if len(vs) < 2 {
		return 0, false
	}
	s := newSmoothing(vs, factor)
	for _, v := range vs[2:] {
		s = s.next(v, factor, trendFactor)
	}
	return s.level, true
}

// smoothing is the average so far, the one before, and the trend.
type smoothing struct{ before, level, trend float64 }

// newSmoothing is the average of the first two values.
func newSmoothing(vs []float64, factor float64) smoothing {
	trend := vs[1] - vs[0]
	return smoothing{vs[0], float64(factor*vs[1]) + float64((1-factor)*(vs[0]+trend)), trend}
}

// next is the average with one more value.
func (s smoothing) next(v, factor, trendFactor float64) smoothing {
	trend := float64(trendFactor*(s.level-s.before)) + float64((1-trendFactor)*s.trend)
	return smoothing{s.level, float64(factor*v) + float64((1-factor)*(s.level+trend)), trend}
}

// smoothings fills out four windows abreast: each operation waits for the one before it in the same
// window, and a processor does others meanwhile.
func (s *Evaluator) smoothings() (points int, ok bool) {
	if s.call.Varying[0] != nil || s.call.Varying[1] != nil {
		return 0, false
	}
	f, t, vs := s.call.Param, s.call.Trend, s.in.Values
	s.bounds.Groups(2, nil, func(g *frame.Group) {
		points += g.N
		for from := 0; from < g.N; from += 4 {
			var w [4][]float64
			common, last := math.MaxInt, g.N-1
			for i := range w {
				k := min(from+i, last)
				w[i] = vs[g.Lo[k]:g.Hi[k]]
				common = min(common, len(w[i]))
			}
			w0, w1, w2, w3 := w[0][:common], w[1][:common], w[2][:common], w[3][:common]
			s0, s1, s2, s3 := newSmoothing(w0, f), newSmoothing(w1, f), newSmoothing(w2, f), newSmoothing(w3, f)
			for i := 2; i < common; i++ {
				s0, s1, s2, s3 = s0.next(w0[i], f, t), s1.next(w1[i], f, t), s2.next(w2[i], f, t), s3.next(w3[i], f, t)
			}
			for i, smoothed := range [4]smoothing{s0, s1, s2, s3} {
				for _, v := range w[i][common:] {
					smoothed = smoothed.next(v, f, t)
				}
				s.out.Set(int(g.Steps[min(from+i, last)]), smoothed.level)
			}
		}
	})
	return points, true
}
