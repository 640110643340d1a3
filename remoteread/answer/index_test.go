package answer

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// Series are found in whatever order they come, and at first sight where they come in label order.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		var all, others []labels.Labels
		for i := range 1 + r.IntN(60) {
			all = append(all, labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i)))
			others = append(others, labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i), "z", "1"))
		}
		comes, ordered := r.Perm(len(all)), r.IntN(3) == 0
		if ordered {
			slices.Sort(comes)
		}
		x := index{series: all}
		for _, k := range comes {
			if r.IntN(5) == 0 {
				i, _ := look(&x, others[r.IntN(len(others))])
				require.Equal(t, -1, i)
			}
			i, matched := look(&x, all[k])
			require.Equal(t, k, i)
			require.True(t, matched || !ordered)
		}
	}
	i, _ := look(&index{}, labels.EmptyLabels())
	require.Equal(t, -1, i)
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
	require.Zero(t, testing.AllocsPerRun(10, func() {
		x := index{series: all}
		for _, w := range wires {
			if i, _ := x.match(w); i < 0 {
				t.Fail()
			}
		}
	}))
}
