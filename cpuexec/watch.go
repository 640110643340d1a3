package cpuexec

// watch lets the loop over the windows of one series, which may hold billions of
// samples together, notice that the query has ended: a loop that gives up leaves
// a result that nobody reads, since the query's error comes before it.
type watch struct {
	done  <-chan struct{} // of the query's context
	since int             // samples since the last look
}

// watchEvery is the number of samples between two looks, some milliseconds of
// the slowest function.
const watchEvery = 1 << 15

// over counts n more samples and reports whether to give up.
func (w *watch) over(n int) bool {
	if w.since += n; w.since < watchEvery {
		return false
	}
	w.since = 0
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}
