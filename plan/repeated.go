package plan

import "slices"

// site is where an aggregation stands: the node that says on which steps it is, which is a
// subquery or a Once above it or nil, how many bytes of the query it takes up, and its text, which
// is empty where no other one has as many bytes.
type site struct {
	steps  Node
	length int
	text   string
}

// Repeated lists the aggregations at and below n that the query has several times on the same
// steps, those that are alike together. None of them is below another one. Those that take up more
// than MaxText bytes are left out.
func Repeated(n Node) (out [][]*Aggregate) {
	lengths := map[site]int{}
	more := false
	aggregates(n, nil, func(a *Aggregate, s site) bool {
		lengths[s]++
		more = more || lengths[s] > 1
		return true
	})
	if !more {
		return nil
	}
	written := func(a *Aggregate, s site) site {
		if lengths[s] > 1 && s.length <= MaxText {
			s.text = a.String()
		}
		return s
	}
	times := map[site]int{}
	aggregates(n, nil, func(a *Aggregate, s site) bool {
		times[written(a, s)]++
		return true
	})
	at := map[site]int{} // in out
	aggregates(n, nil, func(a *Aggregate, s site) bool {
		if s = written(a, s); s.text == "" || times[s] < 2 {
			return true
		}
		i, known := at[s]
		if !known {
			i = len(out)
			at[s], out = i, append(out, nil)
		}
		out[i] = append(out[i], a)
		return false
	})
	return slices.DeleteFunc(out, func(alike []*Aggregate) bool { return len(alike) < 2 })
}

// aggregates calls f for the aggregations at and below n, which is on the steps that the given
// node says, and goes below those of which f returns true.
func aggregates(n, steps Node, f func(a *Aggregate, s site) bool) {
	if a, ok := n.(*Aggregate); ok {
		at := a.Range()
		if !f(a, site{steps: steps, length: int(at.End - at.Start)}) {
			return
		}
	}
	for _, in := range n.Inputs() {
		below := steps
		switch n := n.(type) {
		case *Once:
			below = n
		case *Subwindow:
			if in == n.Input {
				below = n
			}
		}
		aggregates(in, below, f)
	}
}
