package remoteread

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// wire is l as it lies in a frame.
func wire(l labels.Labels) (out []wireLabel) {
	l.Range(func(l labels.Label) { out = append(out, wireLabel{[]byte(l.Name), []byte(l.Value)}) })
	return out
}

func TestCompareWire(t *testing.T) {
	all := []labels.Labels{
		labels.EmptyLabels(),
		labels.FromStrings("__name__", "a"),
		labels.FromStrings("__name__", "a", "code", "200"),
		labels.FromStrings("__name__", "a", "code", "200", "i", "1"),
		labels.FromStrings("__name__", "a", "code", "2000"),
		labels.FromStrings("__name__", "a", "i", "1"),
		labels.FromStrings("__name__", "b"),
		labels.FromStrings("i", ""),
		labels.FromStrings("i", "1"),
	}
	sign := func(n int) int { return min(max(n, -1), 1) }
	for _, a := range all {
		for _, b := range all {
			require.Equal(t, sign(labels.Compare(a, b)), sign(compareWire(a, wire(b))), "%s and %s", a, b)
		}
	}
}

// Of the series that are expected those are found that come, whatever else does.
func TestExpected(t *testing.T) {
	series := func(i int) labels.Labels { return labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)) }
	for _, test := range []struct {
		name            string
		expected, comes []int
		found           []bool
	}{
		{"the same", []int{1, 2, 3}, []int{1, 2, 3}, []bool{true, true, true}},
		{"fewer", []int{1, 2, 3, 4}, []int{2, 4}, []bool{true, true}},
		{"more", []int{2, 4}, []int{1, 2, 3, 4, 5}, []bool{false, true, false, true, false}},
		{"others", []int{1, 3}, []int{2, 4}, []bool{false, false}},
		{"out of order", []int{1, 2, 3}, []int{3, 1, 2}, []bool{true, false, false}},
		{"none expected", nil, []int{1}, []bool{false}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var e expected
			for _, i := range test.expected {
				e = append(e, series(i))
			}
			d := newStreamBuilder(1 << 20)
			d.expected = append(expected(nil), e...)
			for k, i := range test.comes {
				got, ok := e.find(wire(series(i)))
				require.Equal(t, test.found[k], ok, "series %d", i)
				if ok {
					require.True(t, labels.Equal(series(i), got), got)
				}
				require.NoError(t, d.startSeries(wire(series(i))))
				require.True(t, labels.Equal(series(i), d.labels), d.labels)
			}
			require.EqualValues(t, len(test.comes), d.series)
		})
	}
}

// What comes with labels that are expected makes none.
func TestExpectedIsNotMade(t *testing.T) {
	var all expected
	var wires [][]wireLabel
	for i := range 100 {
		l := labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i))
		all, wires = append(all, l), append(wires, wire(l))
	}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		e := all
		for _, w := range wires {
			if _, ok := e.find(w); !ok {
				t.Fail()
			}
		}
	}))
}
