package selection

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
)

// partsOrder goes through the series of several selections in label order. Nearly always
// each series is in most parts, and looking at all parts for each costs as much as there
// is. Where most have a series alone that would be quadratic, so that after many looks in
// vain the parts are put into a heap.
type partsOrder struct {
	parts []*Selection
	next  []int // number of the next series of each part
	have  []int // the parts that have the present series, ascending
	heap  []int // parts with series left, the least series first; nil while all are looked at
	vain  int   // looks at parts that do not have the series, less those that do
}

// vainLooks is how many looks in vain make a heap. A look takes some 10 ns.
const vainLooks = 1 << 16

func newPartsOrder(parts []*Selection) *partsOrder {
	return &partsOrder{parts: parts, next: make([]int, len(parts)), have: make([]int, 0, len(parts))}
}

// least returns the parts that have the least of the next series, or none at the end. It
// is valid until advance, which goes on behind that series.
func (o *partsOrder) least() []int {
	o.have = o.have[:0]
	if o.heap != nil {
		o.leastOfHeap()
		return o.have
	}
	var least labels.Labels
	for p, part := range o.parts {
		if o.next[p] == len(part.series) {
			continue
		}
		l := part.series[o.next[p]]
		switch {
		case len(o.have) > 0 && labels.Equal(l, least): // as most are
			o.have = append(o.have, p)
		case len(o.have) == 0 || labels.Compare(l, least) < 0:
			o.have, least = append(o.have[:0], p), l
		}
	}
	// A heap takes up to ten comparisons where a look takes one.
	if o.vain = max(0, o.vain+len(o.parts)-16*len(o.have)); o.vain > vainLooks {
		o.makeHeap()
	}
	return o.have
}

// advance goes on to the next series of the parts that had the present one.
func (o *partsOrder) advance() {
	for _, p := range o.have {
		o.next[p]++
		if o.heap != nil && o.next[p] < len(o.parts[p].series) {
			o.push(p)
		}
	}
}

// makeHeap makes the heap of all parts but those that have the present series, which
// advance will add.
func (o *partsOrder) makeHeap() {
	o.heap = make([]int, 0, len(o.parts))
	for p, part := range o.parts {
		if o.next[p] < len(part.series) && !slices.Contains(o.have, p) {
			o.push(p)
		}
	}
}

// leastOfHeap moves the parts with the least series from the heap to have.
func (o *partsOrder) leastOfHeap() {
	for len(o.heap) > 0 {
		p := o.heap[0]
		if len(o.have) > 0 && !labels.Equal(o.head(p), o.head(o.have[0])) {
			return
		}
		o.have = append(o.have, p)
		o.pop()
	}
}

// head is the next series of part p.
func (o *partsOrder) head(p int) labels.Labels { return o.parts[p].series[o.next[p]] }

// before is the order in the heap: of parts with the same series the first is first.
func (o *partsOrder) before(p, q int) bool {
	if c := labels.Compare(o.head(p), o.head(q)); c != 0 {
		return c < 0
	}
	return p < q
}

func (o *partsOrder) push(p int) {
	o.heap = append(o.heap, p)
	h := o.heap
	for j := len(h) - 1; j > 0; {
		i := (j - 1) / 2
		if !o.before(h[j], h[i]) {
			return
		}
		h[i], h[j] = h[j], h[i]
		j = i
	}
}

func (o *partsOrder) pop() {
	n := len(o.heap) - 1
	o.heap[0] = o.heap[n]
	o.heap = o.heap[:n]
	h := o.heap
	for i := 0; ; {
		j := 2*i + 1
		if j >= n {
			return
		}
		if j+1 < n && o.before(h[j+1], h[j]) {
			j++
		}
		if !o.before(h[j], h[i]) {
			return
		}
		h[i], h[j] = h[j], h[i]
		i = j
	}
}
