package cpuexec

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/plan"
)

// parameter is the parameter of an aggregation.
type parameter struct {
	constant float64
	values   []float64 // by step; nil for a constant
	// low and high are the least and the largest value and nan says that one is NaN, all
	// as Prometheus's engine finds them.
	low, high float64
	nan       bool
}

// at is the parameter at a step.
func (p *parameter) at(k int) float64 {
	if p.values != nil {
		return p.values[k]
	}
	return p.constant
}

func constantParameter(v float64) parameter {
	return parameter{constant: v, low: v, high: v, nan: math.IsNaN(v)}
}

// parameter evaluates the parameter of n.
func (r *run) parameter(n *plan.Aggregate) (parameter, error) {
	if n.ParamNode == nil {
		return constantParameter(n.Param), nil
	}
	rows, err := r.node(n.ParamNode)
	if err != nil {
		return parameter{}, err
	}
	p := parameter{values: rows[0].Values, low: math.MaxFloat64, high: -math.MaxFloat64}
	for _, v := range p.values {
		p.low, p.high = math.Min(p.low, v), math.Max(p.high, v)
		p.nan = p.nan || math.IsNaN(v)
	}
	return p, nil
}

// mostSeries is the number of series from which on Prometheus's engine refuses to keep
// so many: a little less than the largest int64, which is no float.
const mostSeries = 1<<63 - 1<<10

// selects says what Prometheus's engine does about the parameter of an operator that
// keeps some of its input's series, before it looks at these: whether it keeps none
// at any step, or fails.
func (p *parameter) selects(r *run, n *plan.Aggregate) (none bool, err error) {
	ratio := n.Func.Name == "limit_ratio"
	switch {
	case ratio && p.high == 0 && p.low == 0, !ratio && p.high < 1:
		return true, nil
	case ratio && p.nan:
		return false, refused("Ratio value is NaN")
	case p.nan:
		return false, refused("Parameter value is NaN")
	case !ratio && p.low <= math.MinInt64:
		return false, refused("Scalar value %v underflows int64", p.low)
	case !ratio && p.high >= mostSeries:
		return false, refused("Scalar value %v overflows int64", p.high)
	}
	if ratio && p.high > 1 {
		r.m.Annotations.Add(annotations.NewInvalidRatioWarning(p.high, 1, n.ParamPos))
	}
	if ratio && p.low < -1 {
		r.m.Annotations.Add(annotations.NewInvalidRatioWarning(p.low, -1, n.ParamPos))
	}
	return false, nil
}

// refused is an error in Prometheus's words, some of which begin with a capital.
func refused(format string, args ...any) error { return fmt.Errorf(format, args...) }

// warnQuantiles says what Prometheus's engine says of quantiles that are none.
func (p *parameter) warnQuantiles(r *run, n *plan.Aggregate) {
	warn := func(q float64) { r.m.Annotations.Add(annotations.NewInvalidQuantileWarning(q, n.ParamPos)) }
	if p.nan {
		warn(math.NaN())
	}
	if p.high > 1 {
		warn(p.high)
	}
	if p.low < 0 {
		warn(p.low)
	}
}

func quantileIsValid(q float64) bool { return q >= 0 && q <= 1 }

// quantileAt is quantileOf for any q.
func quantileAt(q float64, vs []float64) float64 {
	switch {
	case q != q:
		return q
	case q < 0:
		return math.Inf(-1)
	case q > 1:
		return math.Inf(1)
	}
	return quantileOf(q, vs)
}

// varying are the parameters of a window function by step, where not all of them are
// constants.
type varying [2][]float64

// holdParams evaluates the parameters of a window function that n applies. Their samples are held
// until free is called, also those of constants.
func (r *run) holdParams(n plan.Node, f *plan.WindowFunc, params []plan.Node) (v varying, free func(), err error) {
	held := f.Param.Count() * r.job.Grid.Steps
	free = func() { r.held -= held }
	if len(params) == 0 {
		r.held += held
		return v, free, nil
	}
	held = 0
	for i, p := range params {
		rows, err := r.node(p)
		if err != nil {
			return v, free, err
		}
		v[i] = rows[0].Values
		held += r.job.Grid.Steps
		r.held += r.job.Grid.Steps
	}
	if f.Param == plan.TwoParamsAfter {
		for k, factor := range v[0] {
			if factorsFail(factor, v[1][k]) != nil {
				return v, free, &plan.Declined{At: n, Reason: reasonFactors}
			}
		}
	}
	return v, free, nil
}

const reasonFactors = "a smoothing or trend factor is outside 0 to 1 at some step, which is for Prometheus's engine to report"

// factorsFail returns Prometheus's error for factors of double_exponential_smoothing.
func factorsFail(factor, trend float64) error {
	switch {
	case factor <= 0 || factor >= 1:
		return fmt.Errorf("invalid smoothing factor. Expected: 0 < sf < 1, got: %f", factor)
	case trend <= 0 || trend >= 1:
		return fmt.Errorf("invalid trend factor. Expected: 0 < tf < 1, got: %f", trend)
	}
	return nil
}

// smoothings is fold with the folder of each step's own factors.
func (v varying) smoothings(ts []int64, vs []float64, b *bounds, out row) (points int) {
	cur := cursor{row: out}
	defer cur.flush()
	for k, i := range b.lo {
		if b.giveUp(k) {
			break
		}
		if v, ok := smoothing(v[0][k], v[1][k])(ts[i:b.hi[k]], vs[i:b.hi[k]]); ok {
			cur.set(k, v)
			points++
		}
	}
	return points
}

// steppedQuantiles fills out with a quantile of each window that may be another at each
// step, or none, and notes at which steps there is one.
func (s *worker) steppedQuantiles(vs []float64, q float64, out row) {
	cur := cursor{row: out}
	for k, lo := range s.bounds.lo {
		if s.bounds.giveUp(k) {
			break
		}
		if s.vary[0] != nil {
			q = s.vary[0][k]
		}
		if hi := s.bounds.hi[k]; lo < hi {
			s.values = append(s.values[:0], vs[lo:hi]...)
			cur.set(k, quantileAt(q, s.values))
		}
	}
	cur.flush()
	if s.noted == nil {
		s.noted = make([]uint64, len(out.present))
	}
	for w, p := range out.present {
		s.noted[w] |= p
	}
}

// noteQuantiles says what Prometheus's engine says of the quantiles that workers have
// noted and that are none. q is the constant.
func (r *run) noteQuantiles(scratch []*worker, q float64, pos posrange.PositionRange) {
	for _, s := range scratch {
		for w, p := range s.noted {
			for ; p != 0; p &= p - 1 {
				if s.vary[0] != nil {
					q = s.vary[0][w<<6+bits.TrailingZeros64(p)]
				}
				if !quantileIsValid(q) {
					r.m.Annotations.Add(annotations.NewInvalidQuantileWarning(q, pos))
				}
				if s.vary[0] == nil {
					break // the same at all steps
				}
			}
		}
	}
}
