package window

import (
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/plan"
)

// Interpolated is a smoothed instant selector: the value at the step on the line
// between the samples around it, or of the newest one if none comes after.
var Interpolated = defineUnnamed(&Function{
	WindowFunc: plan.WindowFunc{Name: "interpolated", KeepsName: true},
	NoPlain:    "it looks at samples beside its window",
	Extended: func(s *Evaluator, e *frame.Edges) {
		copy(s.out.Present, e.Present)
		for k := s.fr.From; k < s.fr.To; k++ {
			if last := e.Last[k]; last < s.fr.Hi[k] {
				s.out.Values[k] = s.valueAt(last, e.Right[k], false)
			}
		}
	},
	Reads: Ends,
	NoGPU: "kernels do not look beyond the ends of windows",
})

// edgeDifferences fills out with the difference between the edges of each step; a counter's
// has what was lost at resets, the samples that are less than the one before, added, and
// its rate is per second. It is Prometheus's extendedRate for floats, operation by operation.
func (s *Evaluator) edgeDifferences(e *frame.Edges, kind difference) {
	fr, in, out, resets := s.fr, &s.in, s.out, s.resetsOf(kind)
	counter, x := kind != gaugeDelta, fr.Span.Extension
	seconds := frame.SecondsOf(fr.Span.Width - x.Before - x.After)
	copy(out.Present, e.Present)
	next := 0 // resets[next:] come behind the first sample between the edges
	for k := fr.From; k < fr.To; k++ {
		first, last := e.First[k], e.Last[k]
		if first == fr.Hi[k] {
			continue
		}
		left := in.At(first)
		if l := e.Left[k]; l.IsLine() {
			left = l.Between(left, in.At(first+1), counter)
		}
		right := s.valueAt(last, e.Right[k], counter)
		v := right - left
		if counter {
			for next < len(resets) && resets[next] <= e.From[k] {
				next++
			}
			v += s.lost(e.From[k], e.To[k], left, right, resets[next:])
		}
		if kind == counterRate {
			v /= seconds
		}
		out.Values[k] = v
	}
}

// valueAt is the value at an edge on the line that ends with a sample, or at that.
func (s *Evaluator) valueAt(last int32, l frame.OnLine, counter bool) float64 {
	if l.IsLine() {
		return l.Between(s.in.At(last-1), s.in.At(last), counter)
	}
	return s.in.At(last)
}

// lost is what a counter lost at resets between two edges, whose values are left and
// right and between which lie the samples from from to to, the end excluded. resets are
// those behind the first of them.
func (s *Evaluator) lost(from, to int32, left, right float64, resets []int32) (sum float64) {
	before, in := left, &s.in
	if from < to {
		if in.At(from) < left {
			sum += left
		}
		for _, r := range resets {
			if r >= to {
				break
			}
			sum += in.At(r - 1)
		}
		before = in.At(to - 1)
	}
	if right < before {
		sum += before
	}
	return sum
}
