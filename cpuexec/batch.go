package cpuexec

import (
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// window evaluates w, and the chain above it, over all series, batch by batch,
// into the sink that open makes once the series are known.
func (r *run) window(w *plan.Window, above chain, open func(*source) operator.Sink) error {
	vary, free, err := r.holdParams(w, w.Func, w.Params)
	defer free()
	if err != nil {
		return err
	}
	src, err := r.open(w, above)
	if err != nil {
		return err
	}
	src.vary = vary
	return r.evaluate(src, w, above, open(src))
}
