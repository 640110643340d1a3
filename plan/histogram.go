package plan

import "github.com/prometheus/prometheus/promql/parser/posrange"

// Histogram computes one value for each classic histogram among the series of
// its input: those that differ in nothing but the label le.
type Histogram struct {
	Func  *HistogramFunc
	Args  []float64 // histogram_quantile: φ; histogram_fraction: lower and upper bound
	Input Node
	// ArgPos is the position of the first constant, InputPos that of the input,
	// both for annotations.
	ArgPos, InputPos posrange.PositionRange
	Pos              posrange.PositionRange
	Text             string // the expression as Prometheus prints it
}

// HistogramFunc describes a function of classic histograms.
type HistogramFunc struct {
	Name string
	Args int // constants before the input
}

// Histograms is the table of functions of classic histograms, by PromQL name.
var Histograms = map[string]*HistogramFunc{
	"histogram_quantile": {Name: "histogram_quantile", Args: 1},
	"histogram_fraction": {Name: "histogram_fraction", Args: 2},
}

// Range implements Node.
func (h *Histogram) Range() posrange.PositionRange { return h.Pos }

// Inputs implements Node.
func (h *Histogram) Inputs() []Node { return []Node{h.Input} }

// DropsName implements Node.
func (*Histogram) DropsName() bool { return true }

func (h *Histogram) String() string { return h.Text }
