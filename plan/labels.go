package plan

import (
	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// Relabel sets a label of each series of its input and leaves the values alone:
// label_replace, or label_join where there is no regular expression.
type Relabel struct {
	Input  Node
	Name   string   // of the function
	Label  string   // the label that is set
	Source []string // labels that its value is made of; of label_replace one

	Regexp    *regexp.Regexp // what the source must match, wholly
	Template  string         // of the value, with groups of Regexp
	Separator string         // of label_join
	Merges    bool           // see Map

	Pos  posrange.PositionRange
	Text Text // the expression as Prometheus prints it
}

// Range implements Node.
func (r *Relabel) Range() posrange.PositionRange { return r.Pos }

// Inputs implements Node.
func (r *Relabel) Inputs() []Node { return []Node{r.Input} }

// DropsName implements Node. A name that is set stays.
func (r *Relabel) DropsName() bool { return r.Label != model.MetricNameLabel && r.Input.DropsName() }

func (r *Relabel) String() string { return render(r.Text) }
