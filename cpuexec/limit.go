package cpuexec

import "github.com/promwarp/promwarp/plan"

// releases reports whether Prometheus's engine, when it has evaluated n, counts as held no
// more than it did before and the result. The function info goes on to count its input and
// the info series, until something above it does so.
func releases(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Window, *plan.Relabel, *plan.Subwindow, *plan.Info:
		return false
	case *plan.Map:
		return n.Func.Name != "neg"
	}
	return true
}
