package answer

import (
	"errors"

	"github.com/prometheus/prometheus/model/labels"
)

// index finds expected series by their labels, in whatever order they come.
type index struct {
	series  []labels.Labels
	next    int            // number of the series that is likely to come next
	numbers map[uint64]int // by hash; nil until it is needed
}

// lookAhead is how many series that are likely to come next are looked at before all
// others. More than one, as series end.
const lookAhead = 3

// match returns the number of the series whose labels the given prompb.TimeSeries or
// prompb.ChunkedSeries starts with, if it is one of those that are likely to come next,
// and how many bytes the labels take; or -1.
func (x *index) match(wire []byte) (i, n int) {
	for i := x.next; i < min(x.next+lookAhead, len(x.series)); i++ {
		if n := startsWith(wire, x.series[i]); n > 0 {
			x.next = i + 1
			return i, n
		}
	}
	return -1, 0
}

// find returns the number of the series with the given labels, or -1. Of two with the same hash it
// finds one.
func (x *index) find(l labels.Labels) int {
	if x.numbers == nil {
		x.numbers = make(map[uint64]int, len(x.series))
		for i, l := range x.series {
			x.numbers[l.Hash()] = i
		}
	}
	i, ok := x.numbers[l.Hash()]
	if !ok || !labels.Equal(x.series[i], l) {
		return -1
	}
	x.next = i + 1
	return i
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
