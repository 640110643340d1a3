package answer

import (
	"errors"
	"slices"
	"sync"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
)

// index finds expected series by their labels, in whatever order they come: a
// Prometheus sends series as samples in the order in which they were first seen, the
// same one every time.
type index struct {
	series []labels.Labels
	part   int     // see orderKey
	last   int     // number of the series that was found last; -1 for none
	order  []int32 // see orders; nil for label order
	own    bool    // whether order may be changed
	misses int     // series that were not the most likely ones to come next

	table []uint32 // numbers from 1, by hash; 0 for none; empty until it is needed
}

// lookAhead is how many series that are likely to come next are looked at before all
// others. More than one, as series end.
const lookAhead = 3

func (x *index) reset() { *x = index{table: x.table[:0]} }

// expect makes x find the given series, of which those of a part come as o knows, or, if
// that is nil, in label order.
func (x *index) expect(series []labels.Labels, part int, o *orders) {
	*x = index{series: series, part: part, last: -1, table: x.table[:0]}
	if o != nil {
		x.order = o.of(series, part)
	}
}

// after returns the number of the series that is likely to come after that with number
// i, which is -1 at the start, or how many series there are for none.
func (x *index) after(i int) int {
	if x.order == nil {
		return i + 1
	}
	return int(x.order[i+1])
}

// match returns the number of the series whose labels the given prompb.TimeSeries or
// prompb.ChunkedSeries starts with, if it is one of those that are likely to come next,
// and how many bytes the labels take; or -1.
func (x *index) match(wire []byte) (i, n int) {
	i = x.last
	for k := range lookAhead {
		if i = x.after(i); i >= len(x.series) {
			break
		}
		if n := startsWith(wire, x.series[i]); n > 0 {
			if k > 0 {
				x.learn(i)
			}
			x.last = i
			return i, n
		}
	}
	return -1, 0
}

var errDiffer = errors.New("labels differ")

// startsWith returns how many bytes the labels take that wire starts with, if they are l
// and each is encoded in the usual way, and otherwise 0.
func startsWith(wire []byte, l labels.Labels) int {
	at := 0
	err := l.Validate(func(l labels.Label) error {
		n, m := len(l.Name), len(l.Value)
		b := wire[at:]
		if n+m+4 > 0x7f || len(b) < n+m+6 || b[0] != 0x0a || b[1] != byte(n+m+4) || b[2] != 0x0a || b[3] != byte(n) ||
			string(b[4:4+n]) != l.Name || b[4+n] != 0x12 || b[5+n] != byte(m) || string(b[6+n:6+n+m]) != l.Value {
			return errDiffer
		}
		at += n + m + 6
		return nil
	})
	if err != nil || at < len(wire) && wire[at] == 0x0a { // another label
		return 0
	}
	return at
}

// find returns the number of the series with the given labels, or -1.
func (x *index) find(l labels.Labels) int {
	if len(x.series) == 0 {
		return -1
	}
	if len(x.table) == 0 {
		x.fill()
	}
	mask := uint64(len(x.table) - 1)
	for at := l.Hash() & mask; x.table[at] != 0; at = (at + 1) & mask {
		if i := int(x.table[at] - 1); labels.Equal(x.series[i], l) {
			x.learn(i)
			x.last = i
			return i
		}
	}
	return -1
}

// fill fills the table, of which half is free at least.
func (x *index) fill() {
	size := 4
	for size < 2*len(x.series) {
		size *= 2
	}
	x.table = slices.Grow(x.table[:0], size)[:size]
	clear(x.table)
	mask := uint64(size - 1)
	for i, l := range x.series {
		at := l.Hash() & mask
		for x.table[at] != 0 {
			at = (at + 1) & mask
		}
		x.table[at] = uint32(i + 1)
	}
}

// learn notes that series i came after the last one.
func (x *index) learn(i int) {
	if !x.own {
		order := make([]int32, len(x.series)+1)
		for k := range order {
			order[k] = int32(x.after(k - 1))
		}
		x.order, x.own = order, true
	}
	x.order[x.last+1] = int32(i)
	x.misses++
}

// orders holds in which order the series of a selection came last time: as element i+1
// which one came after series i, as element 0 which came first. They are only guesses,
// so a selection is known by where its labels lie.
type orders struct {
	mu     sync.Mutex
	orders map[orderKey][]int32
	size   int // elements of all
}

type orderKey struct {
	first  uintptr
	series int
	part   int // of those that come when a fetch is divided
}

// maxOrders is the most elements that orders holds, of four bytes each.
const maxOrders = 1 << 20

func keyOf(series []labels.Labels, part int) orderKey {
	return orderKey{uintptr(unsafe.Pointer(unsafe.SliceData(series))), len(series), part}
}

// of returns the order of a part of the given series, or nil if it is not known. It must
// not be changed.
func (o *orders) of(series []labels.Labels, part int) []int32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.orders[keyOf(series, part)]
}

// keep keeps what x learned.
func (o *orders) keep(x *index) {
	if x.misses == 0 || len(x.order) > maxOrders {
		return
	}
	k := keyOf(x.series, x.part)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size += len(x.order) - len(o.orders[k])
	if o.orders == nil || o.size > maxOrders {
		o.orders, o.size = map[orderKey][]int32{}, len(x.order)
	}
	o.orders[k] = x.order
	x.own = false
}
