package aggregate

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/plan"
)

// Input is what a sink is told of the series that it is about to consume.
type Input struct {
	N      int
	Labels func(i int) labels.Labels
	Groups func() Groups // of the sink's aggregation
}

// InputOf is the input of the aggregation node of n series with labels at.
func InputOf(node *plan.Aggregate, n int, at func(int) labels.Labels) Input {
	return Input{N: n, Labels: at, Groups: func() Groups { return Group(node, n, at) }}
}
