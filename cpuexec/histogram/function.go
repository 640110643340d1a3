package histogram

import (
	"github.com/promwarp/promwarp/internal/definitions"
	"github.com/promwarp/promwarp/plan"
)

// Function is the definition of a function of classic histograms.
type Function struct {
	plan.HistogramFunc

	// values fills out with the function of the buckets in s.columns, at consecutive steps of which
	// the first is given. Nil if there is a result for each argument: see ManyQuantiles.
	values func(s *Evaluator, args []float64, first int, out []float64, fixed *repairs)
	// quantiles says that arguments are quantiles. One outside 0 to 1 is warned of.
	quantiles bool
}

var table definitions.Table[plan.HistogramFunc, Function]

var (
	_ = define(&Function{
		HistogramFunc: plan.HistogramFunc{Name: "histogram_quantile", Args: 1},
		values: func(s *Evaluator, args []float64, first int, out []float64, fixed *repairs) {
			s.block.quantiles(args[0], s.columns, out, first, fixed)
		},
		quantiles: true,
	})
	_ = define(&Function{
		HistogramFunc: plan.HistogramFunc{Name: "histogram_fraction", Args: 2},
		values: func(s *Evaluator, args []float64, _ int, out []float64, _ *repairs) {
			s.fractions(args[0], args[1], out)
		},
	})
	_ = define(&Function{HistogramFunc: plan.HistogramFunc{Name: "histogram_quantiles", Many: true}, quantiles: true})
)

func define(f *Function) *plan.HistogramFunc { return table.Add(f.Name, &f.HistogramFunc, f) }

// Named is the function of classic histograms with a name in PromQL, or nil.
func Named(name string) *plan.HistogramFunc { return table.Named(name) }

// Functions are all definitions.
func Functions() []*Function { return table.All() }
