package selection

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Changed compares samples that were kept with what a fetch has brought in their place, between pairs of
// times (ms, the second not included). It returns the number of series in which they differ, and where the
// first of them does.
func Changed(was, is *Selection, spans [][2]int64) (series int, first string) {
	both := partsOrder{parts: []*Selection{was, is}, next: make([]int, 2)}
	for have := both.least(); len(have) > 0; have = both.least() {
		of := [2]ofSeries{{was, -1}, {is, -1}}
		for _, p := range have {
			of[p].number = both.next[p]
		}
		for _, s := range spans {
			if text := difference(of[0], of[1], s); text != "" {
				if series++; series == 1 {
					first = text
				}
				break
			}
		}
	}
	return series, first
}

// ofSeries is one series of a selection; number -1 is none.
type ofSeries struct {
	*Selection
	number int
}

// in returns the chunks of the series that have something of s.
func (o ofSeries) in(s [2]int64) []Chunk {
	if o.number < 0 {
		return nil
	}
	return o.Overlapping(o.number, s[0], s[1]-1)
}

// difference says where had and has, the same series, differ in s; nothing if they do not.
func difference(had, has ofSeries, s [2]int64) string {
	a, b := had.in(s), has.in(s)
	if slices.EqualFunc(a, b, func(x, y Chunk) bool {
		return x.Enc == y.Enc && slices.Equal(had.Bytes(x), has.Bytes(y))
	}) {
		return ""
	}
	x, y := chunkenc.NewNopIterator(), chunkenc.NewNopIterator()
	series := has
	if len(a) > 0 {
		x, series = had.Decode(had.number, a, s[0], s[1]-1, nil), had
	}
	if len(b) > 0 {
		y = has.Decode(has.number, b, s[0], s[1]-1, nil)
	}
	for {
		p, q := x.Next(), y.Next()
		if p == chunkenc.ValNone && q == chunkenc.ValNone {
			return ""
		}
		t, kept := sampleOf(p, x)
		u, now := sampleOf(q, y)
		if t == u && kept == now {
			continue
		}
		if t > u {
			t, kept = u, "nothing"
		} else if t < u {
			now = "nothing"
		}
		at := time.UnixMilli(t).UTC().Format(time.RFC3339Nano)
		return fmt.Sprintf("%s at %s: it was %s and is %s", series.Labels(series.number), at, kept, now)
	}
}

// sampleOf is the sample at which an iterator is: its time in ms, and its value as text that differs
// where values do.
func sampleOf(typ chunkenc.ValueType, it chunkenc.Iterator) (int64, string) {
	switch typ {
	case chunkenc.ValNone:
		return math.MaxInt64, ""
	case chunkenc.ValFloat:
		t, v := it.At()
		if math.IsNaN(v) {
			return t, fmt.Sprintf("NaN (%x)", math.Float64bits(v))
		}
		return t, fmt.Sprint(v)
	}
	t, h := it.AtFloatHistogram(nil)
	return t, h.String()
}
