package cpuexec

import (
	"fmt"
	"slices"
	"time"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
)

// Leaf is a window, or an aggregation over one, that is offered to an accelerator. What
// Prometheus says of its series, and of what comes out, the cores add to the outcome.
type Leaf struct {
	offload.Input
	Aggregate *plan.Aggregate // nil where the values of the window itself are asked for
	Maps      []*plan.Map     // that stand between the two, the lowest first
	Window    *plan.Window
	Grid      plan.Grid
	Rooms     []int // of topk and bottomk, how many series each group keeps at a step
	// Starts says that some samples have start timestamps that the window reads.
	Starts       bool
	CountSamples bool // see Job

	start time.Time // when the leaf was made
}

// LeafOf is the leaf of a node, without data, or nil where it is none.
func LeafOf(n plan.Node) *Leaf {
	l := &Leaf{}
	if a, ok := n.(*plan.Aggregate); ok {
		l.Aggregate, n = a, a.Input
		for m, ok := n.(*plan.Map); ok; m, ok = n.(*plan.Map) {
			l.Maps, n = append(l.Maps, m), m.Input
		}
		slices.Reverse(l.Maps)
	}
	var ok bool
	if l.Window, ok = n.(*plan.Window); !ok {
		return nil
	}
	return l
}

// over returns the leaf l over what s reads.
func (l *Leaf) over(s *selected) *Leaf {
	r, sel := s.r, s.src.sel
	l.Grid, l.CountSamples, l.start = r.job.Grid, r.job.CountSamples, time.Now()
	l.Starts = r.job.StartTimestamps && s.w.ReadsStarts() && decode.HasStarts(sel)
	l.Input = offload.Input{Selection: sel, Windows: l.Grid.Steps, Forced: r.job.Forced, Ended: r.Done}
	l.From, l.To = s.w.Reads(l.Grid)
	return l
}

// windowLeaf returns the leaf of a window alone. All its series are in one group.
func (s *selected) windowLeaf() *Leaf {
	l := LeafOf(s.w).over(s)
	l.Groups = 1
	l.GroupOf = selection.Note(s.src.sel.Notes.Series, oneGroupKey{}, func() operator.Groups {
		return operator.Groups{Of: make([]int32, len(s.series))}
	}).Of
	return l
}

// oneGroupKey is the key of the note on a selection's series in one group.
type oneGroupKey struct{}

// Node is what is computed.
func (l *Leaf) Node() plan.Node {
	if l.Aggregate != nil {
		return l.Aggregate
	}
	return l.Window
}

// Selector implements offload.Leaf.
func (l *Leaf) Selector() string { return l.Window.Scan.String() }

const reasonVaries = "a parameter that is not a constant is not on the GPU yet"

// Unsuited implements offload.Leaf.
func (l *Leaf) Unsuited() string {
	if a := l.Aggregate; a != nil {
		switch f := aggregate.Of(a.Func); {
		case f.NoGPU != "":
			return fmt.Sprintf("the operator %s is not on the GPU: %s", f.Name, f.NoGPU)
		case a.ParamNode != nil:
			return reasonVaries
		case f.Outside != "" && !f.Ordinary(a.Param):
			return f.Outside + " is not on the GPU"
		}
	}
	for _, m := range slices.Backward(l.Maps) {
		if f := vector.Of(m.Func); f.NoGPU != "" {
			return fmt.Sprintf("the function %s is not on the GPU: %s", m.Func.Name, f.NoGPU)
		}
	}
	w := l.Window
	switch f := window.Of(w.Func); {
	case w.Extension.Modifier != plan.Unmodified:
		return "anchored and smoothed selectors are not on the GPU yet"
	case f.NoGPU != "":
		return fmt.Sprintf("the function %s is not on the GPU: %s", f.Name, f.NoGPU)
	case len(w.Params) > 0:
		return reasonVaries
	case f.Ordinary != nil && !f.Ordinary(w.Param, w.Trend):
		return f.Outside + " is not on the GPU"
	}
	return ""
}

// DecodedShare is the share, from 0 to 1, of some series of a selection that cores retain decoded.
func DecodedShare(s *selection.Selection) float64 {
	looked, decoded := 0, 0
	for i := 0; i < s.NumSeries(); i += max(1, s.NumSeries()/64) {
		looked++
		if column.IsDecoded(s.Memo(i)) {
			decoded++
		}
	}
	return float64(decoded) / float64(max(looked, 1))
}

// Size implements offload.Leaf. The function tells apart what the formula of the costs does not.
func (l *Leaf) Size() offload.Size {
	s, steps := l.Input.Size(), int64(l.Grid.Steps)
	s.Decoded = DecodedShare(l.Selection)
	s.Function = l.Window.Func.Name
	if l.Aggregate == nil {
		s.Function += " alone"
		s.Results = 8 * int64(len(l.GroupOf)) * steps
		return s
	}
	if f := l.Aggregate.Func; !f.Adds() {
		s.Function += " " + f.Name
	}
	s.Results = 8 * int64(l.Groups) * steps
	for _, room := range l.Rooms {
		s.Results += 12 * int64(room) * steps
	}
	return s
}
