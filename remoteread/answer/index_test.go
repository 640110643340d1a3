package answer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

// seriesWire is a series of samples, or of chunks, with nothing but labels.
func seriesWire(l labels.Labels) []byte {
	return marshal(&prompb.TimeSeries{Labels: prompb.FromLabels(l, nil)})
}

// look finds a series of labels l as a reader does, and reports whether at first sight.
func look(x *index, l labels.Labels) (i int, matched bool) {
	if i, _ := x.match(seriesWire(l)); i >= 0 {
		return i, true
	}
	return x.find(l), false
}

// Series are found in whatever order they come, and the second time where they are
// likely to be.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		var all, others []labels.Labels
		for i := range 1 + r.IntN(60) {
			all = append(all, labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i)))
			others = append(others, labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i), "z", "1"))
		}
		comes := r.Perm(len(all))
		if r.IntN(3) == 0 {
			for i := range comes {
				comes[i] = i
			}
		}
		comes = comes[:r.IntN(len(all)+1)]
		var o orders
		for pass := range 3 {
			var x index
			x.expect(all, 0, &o)
			for _, k := range comes {
				i, matched := look(&x, all[k])
				require.Equal(t, k, i)
				require.True(t, matched || pass == 0)
				if r.IntN(5) == 0 {
					i, _ := look(&x, others[r.IntN(len(others))])
					require.Equal(t, -1, i)
				}
			}
			o.keep(&x)
		}
		// Some end, and what is not in its place is found all the same.
		var x index
		x.expect(all, 0, &o)
		for _, k := range comes {
			if r.IntN(4) > 0 {
				i, _ := look(&x, all[k])
				require.Equal(t, k, i)
			}
		}
	}
	var none index
	none.expect(nil, 0, &orders{})
	i, _ := look(&none, labels.EmptyLabels())
	require.Equal(t, -1, i)
}

// What several readers learn at once does not get into each other's way.
func TestOrdersAreShared(t *testing.T) {
	var all []labels.Labels
	for i := range 100 {
		all = append(all, labels.FromStrings("i", fmt.Sprintf("%03d", i)))
	}
	var o orders
	done := make(chan bool)
	for g := range 8 {
		go func() {
			defer func() { done <- true }()
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for range 50 {
				var x index
				x.expect(all, 0, &o)
				for _, k := range r.Perm(len(all)) {
					if i, _ := look(&x, all[k]); i != k {
						t.Errorf("series %d found as %d", k, i)
					}
				}
				o.keep(&x)
			}
		}()
	}
	for range 8 {
		<-done
	}
	require.Equal(t, len(all)+1, o.size)
	require.Len(t, o.orders, 1)
}

func TestOrdersAreFew(t *testing.T) {
	var o orders
	for range 5 {
		x := index{series: make([]labels.Labels, maxOrders/2), order: make([]int32, maxOrders/2+1), misses: 1}
		o.keep(&x)
		require.LessOrEqual(t, len(o.orders), 1)
		require.LessOrEqual(t, o.size, maxOrders)
	}
	x := index{series: make([]labels.Labels, 2*maxOrders), order: make([]int32, 2*maxOrders), misses: 1}
	o.keep(&x)
	require.Nil(t, o.of(x.series, 0))
}

func TestStartsWith(t *testing.T) {
	l := labels.FromStrings("__name__", "m", "a", "b")
	wire := seriesWire(l)
	long := labels.FromStrings("__name__", strings.Repeat("x", 200))
	for name, test := range map[string]struct {
		wire []byte
		l    labels.Labels
		want int
	}{
		"the same":            {wire, l, len(wire)},
		"samples behind":      {append(wire[:len(wire):len(wire)], 0x12, 0), l, len(wire)},
		"another label":       {wire, labels.FromStrings("__name__", "m"), 0},
		"a label less":        {wire, labels.FromStrings("__name__", "m", "a", "b", "c", "d"), 0},
		"another value":       {wire, labels.FromStrings("__name__", "m", "a", "c"), 0},
		"a longer value":      {wire, labels.FromStrings("__name__", "m", "a", "bb"), 0},
		"another name":        {wire, labels.FromStrings("__name__", "m", "b", "b"), 0},
		"nothing":             {nil, l, 0},
		"no labels":           {nil, labels.EmptyLabels(), 0},
		"a long value":        {seriesWire(long), long, 0}, // encoded in another way
		"cut off":             {wire[:len(wire)-1], l, 0},
		"a field more inside": {[]byte{0x0a, 8, 0x0a, 1, 'a', 0x12, 1, 'b', 0x18, 1}, labels.FromStrings("a", "b"), 0},
	} {
		require.Equal(t, test.want, startsWith(test.wire, test.l), name)
	}
}

func TestMatchIsNotMade(t *testing.T) {
	var all []labels.Labels
	var wires [][]byte
	for i := range 100 {
		l := labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i))
		all, wires = append(all, l), append(wires, seriesWire(l))
	}
	var o orders
	require.Zero(t, testing.AllocsPerRun(10, func() {
		var x index
		x.expect(all, 0, &o)
		for _, w := range wires {
			if i, _ := x.match(w); i < 0 {
				t.Fail()
			}
		}
	}))
}
