package aggregate

import "math"

// keyed is a list of sort keys and the series that each belongs to, in the
// order of Prometheus's heap of samples. Ties and NaNs make the order depend on
// how the heap was built, so it moves elements exactly as Go's container/heap
// does, and it is a sort.Interface for Go's own sort.
type keyed struct {
	keys   []float64
	series []int32
}

// before is the order of Prometheus's heaps. NaN comes before everything, itself
// included.
func before(a, b float64) bool { return a < b || math.IsNaN(a) }

func (h keyed) Len() int { return len(h.keys) }

func (h keyed) Less(i, j int) bool { return before(h.keys[i], h.keys[j]) }

func (h keyed) Swap(i, j int) {
	h.keys[i], h.keys[j] = h.keys[j], h.keys[i]
	h.series[i], h.series[j] = h.series[j], h.series[i]
}

// up moves the last element to its place in the heap of the others.
func (h keyed) up() {
	at := len(h.keys) - 1
	key, series := h.keys[at], h.series[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !before(key, h.keys[parent]) {
			break
		}
		h.keys[at], h.series[at] = h.keys[parent], h.series[parent]
		at = parent
	}
	h.keys[at], h.series[at] = key, series
}

// down moves the first element to its place in the heap of the others.
func (h keyed) down() {
	at, key, series := 0, h.keys[0], h.series[0]
	for {
		child := 2*at + 1
		if child >= len(h.keys) {
			break
		}
		if right := child + 1; right < len(h.keys) && before(h.keys[right], h.keys[child]) {
			child = right
		}
		if !before(h.keys[child], key) {
			break
		}
		h.keys[at], h.series[at] = h.keys[child], h.series[child]
		at = child
	}
	h.keys[at], h.series[at] = key, series
}
