package reduce

import (
	"math"
)

// function is what an evaluation sees of the samples in its window.
type function int

const (
	everything function = iota
	latest              // the last one
	earliest            // the first one
	largest             // the first of the largest ones
	smallest            // the first of the smallest ones
)

// overTime are the functions of a range that see one sample of each window.
var overTime = map[string]function{
	"last_over_time":    latest,
	"present_over_time": latest,
	"absent_over_time":  latest,
	"first_over_time":   earliest,
	"max_over_time":     largest,
	"min_over_time":     smallest,
}

// marker notes which samples of a series some evaluation sees.
type marker struct {
	asked
	function
	before, after []int // scratch memory of extremes
	stack         []int
}

// mark appends to kept the indices of those samples of ts and vs that are seen by an evaluation
// of the grid. Each sample decides the evaluation in an interval of times: it is kept if a time
// of the grid lies there. None of the samples is dropped by the reader: of ranges, vs has no
// stale markers.
func (m *marker) mark(kept []int, ts []int64, vs []float64) []int {
	if m.function == largest || m.function == smallest {
		m.extremes(vs)
	}
	next := m.first // of the grid, for from ascends but for extremes
	for i, t := range ts {
		from, until := t, t+m.width
		switch m.function {
		case latest:
			if i+1 < len(ts) {
				until = min(until, ts[i+1])
			}
		case earliest:
			if i > 0 {
				from = max(from, ts[i-1]+m.width)
			}
		case largest, smallest:
			if p := m.before[i]; p >= 0 {
				from = max(from, ts[p]+m.width)
			}
			if n := m.after[i]; n < len(ts) {
				until = min(until, ts[n])
			}
		}
		if next < from || m.function > earliest {
			next = m.grid.after(from)
		}
		if next > m.last && m.function <= earliest {
			break
		}
		if next < until && next <= m.last {
			kept = append(kept, i)
		}
	}
	return kept
}

// extremes finds for each sample the last one before it that keeps it from being its window's
// extreme, and the first one after it. Of equal values the first is the extreme. A NaN is so
// only where there are NaNs alone, and the last of them is.
func (m *marker) extremes(vs []float64) {
	m.before, m.after, m.stack = m.before[:0], m.after[:0], m.stack[:0]
	for i, v := range vs {
		m.after = append(m.after, len(vs))
		if math.IsNaN(v) {
			m.before = append(m.before, -1)
			if i+1 < len(vs) {
				m.after[i] = i + 1
			}
			continue
		}
		beats := func(p int) bool { return m.function == largest && v > vs[p] || m.function == smallest && v < vs[p] }
		for len(m.stack) > 0 && beats(m.stack[len(m.stack)-1]) {
			m.after[m.stack[len(m.stack)-1]] = i
			m.stack = m.stack[:len(m.stack)-1]
		}
		p := -1
		if len(m.stack) > 0 {
			p = m.stack[len(m.stack)-1]
		}
		m.before = append(m.before, p)
		m.stack = append(m.stack, i)
	}
}
