package reduce

import (
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/remoteread/serve"
)

// choose returns what is seen of the samples of q, by a reader that has no others if it is alone,
// and whether each window's sample is sent as one at the window's end. That takes fewer bytes, and
// is the only way to send what is added up.
func (a asked) choose(q serve.Query, alone bool) (f function, onGrid bool) {
	if q.Hints.Range == 0 {
		return latest, false
	}
	alone = alone && !cut(q)
	onGrid = alone && (a.step >= a.width || a.steps() == 1)
	if f = overTime[q.Hints.Func]; f == everything && alone {
		f = aloneOverTime[q.Hints.Func]
	}
	if f.added() && !(onGrid && a.sums) {
		f = everything
	}
	return f, onGrid && f != everything && f < lastTwo
}

// cut reports whether the reader drops what is sent of times for which it has samples itself.
func cut(q serve.Query) bool { return q.Start > q.Hints.Start || q.End < q.Hints.End }

// add appends to w's times and values those of windows that are made of all of their samples.
func (w *worker) add(ts []int64, vs []float64) {
	for lo, hi := 0, 0; hi < len(ts); {
		at := w.grid.after(ts[hi])
		if at > w.last {
			return
		}
		lo, hi = beyond(ts, hi, at-w.width), beyond(ts, hi, at)
		if lo == hi {
			continue
		}
		v := 0.0
		if w.function == total {
			v = exact.Sum(vs[lo:hi])
		} else {
			v = exact.Mean(vs[lo:hi])
		}
		w.times, w.values = append(w.times, at), append(w.values, v)
	}
}
