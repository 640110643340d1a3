package plan

import "github.com/prometheus/prometheus/promql/parser/posrange"

// Histogram computes one value for each classic histogram among the series of
// its input: those that differ in nothing but the label le. histogram_quantiles
// computes one for each of its arguments.
type Histogram struct {
	Func  *HistogramFunc
	Args  []float64 // histogram_quantile: φ; histogram_fraction: lower and upper bound
	Input Node
	Label string // of histogram_quantiles: what takes the argument

	Merges bool // see Map
	// ArgNodes are the arguments as scalars where they are not all constants.
	ArgNodes []Node
	// ArgPos is the position of the first constant, InputPos that of the input,
	// both for annotations.
	ArgPos, InputPos posrange.PositionRange
	ArgsPos          []posrange.PositionRange // of all constants of histogram_quantiles
	Pos              posrange.PositionRange
	Text             Text // the expression as Prometheus prints it
}

// HistogramFunc describes a function of classic histograms.
type HistogramFunc struct {
	Name string
	Args int // scalars before the input; those of histogram_quantiles come after it
}

// Histograms is the table of functions of classic histograms, by PromQL name.
var Histograms = map[string]*HistogramFunc{
	"histogram_quantile": {Name: "histogram_quantile", Args: 1},
	"histogram_fraction": {Name: "histogram_fraction", Args: 2},

	"histogram_quantiles": {Name: "histogram_quantiles"},
}

// Many reports whether the function has a result for each of its arguments.
func (h *Histogram) Many() bool { return h.Func.Name == "histogram_quantiles" }

// Results is the number of series of the result for each histogram.
func (h *Histogram) Results() int {
	if h.Many() {
		return len(h.Args)
	}
	return 1
}

// Range implements Node.
func (h *Histogram) Range() posrange.PositionRange { return h.Pos }

// Inputs implements Node.
func (h *Histogram) Inputs() []Node {
	return append(h.ArgNodes[:len(h.ArgNodes):len(h.ArgNodes)], h.Input)
}

// DropsName implements Node.
func (*Histogram) DropsName() bool { return true }

func (h *Histogram) String() string { return render(h.Text) }
