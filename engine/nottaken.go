package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/plan"
)

// leftOver lists what is not on the executor that the request forced: of the nodes
// that stayed with Prometheus's engine the highest that read samples, and, with
// the GPU forced, the windows that the cores evaluated.
func (q *query) leftOver() []string {
	var out []string
	if q.root == nil {
		return nil
	}
	q.root.Walk(func(d *plan.Decision) {
		if d.Own || q.mode == GPU && d.Executor == plan.OnCPU && d.Reason != "" {
			out = append(out, fmt.Sprintf("%s: %s", d.Expr, d.Reason))
		}
	})
	return slices.Compact(out)
}

// NotTakenError is the error of a strict request whose forced executor could
// not evaluate all of the query.
type NotTakenError struct {
	Mode  Mode
	Parts []string // expression and reason
}

func (e *NotTakenError) Error() string {
	return fmt.Sprintf("executor=%s with strict=true: parts of the query are not on %s: %s", e.Mode, e.Mode.thing(), strings.Join(e.Parts, "; "))
}

// NotTakenWarning says which part of a query a forced executor could not take.
type NotTakenWarning struct {
	Mode Mode
	Part string
}

func (w NotTakenWarning) Error() string {
	if w.Mode == GPU {
		return "PromQL warning: not evaluated on a GPU: " + w.Part
	}
	return "PromQL warning: evaluated by Prometheus's engine: " + w.Part
}

// Unwrap makes the warning one that Prometheus's API lists under warnings.
func (NotTakenWarning) Unwrap() error { return annotations.PromQLWarning }
