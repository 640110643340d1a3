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

	"github.com/promwarp/promwarp/remoteread/wire"
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

func labelsOf(pairs ...string) (ls []wire.Label) {
	for i := 0; i < len(pairs); i += 2 {
		ls = append(ls, wire.Label{Name: []byte(pairs[i]), Value: []byte(pairs[i+1])})
	}
	return ls
}

func matchersOf(t testing.TB, text ...string) (ms []*labels.Matcher) {
	for i := 0; i < len(text); i += 3 {
		typ := map[string]labels.MatchType{"=": labels.MatchEqual, "!=": labels.MatchNotEqual, "=~": labels.MatchRegexp, "!~": labels.MatchNotRegexp}[text[i+1]]
		m, err := labels.NewMatcher(typ, text[i], text[i+2])
		require.NoError(t, err)
		ms = append(ms, m)
	}
	return ms
}

func TestSelectorChecks(t *testing.T) {
	a := labelsOf("__name__", "a", "job", "x")
	for _, c := range []struct {
		name   string
		ms     []*labels.Matcher
		added  bool
		series [][]wire.Label
		bad    int // the first series that is an error; -1 for none
	}{
		{"those asked for", matchersOf(t, "__name__", "=", "a", "job", "=~", "x|y"), false, [][]wire.Label{a, a, labelsOf("__name__", "a", "job", "y"), a}, -1},
		{"another name", matchersOf(t, "__name__", "=", "a"), false, [][]wire.Label{a, labelsOf("__name__", "b")}, 1},
		{"no name", matchersOf(t, "__name__", "=", "a"), false, [][]wire.Label{a, labelsOf("job", "x")}, 1},
		{"another label", matchersOf(t, "job", "=~", "x|y"), false, [][]wire.Label{a, labelsOf("__name__", "a", "i", "1", "job", "y"), labelsOf("__name__", "a", "job", "z")}, 2},
		{"labels elsewhere", matchersOf(t, "job", "=", "x"), false, [][]wire.Label{labelsOf("a", "1", "b", "2", "job", "x"), labelsOf("job", "x"), labelsOf("a", "1", "job", "y")}, 2},
		{"a label that must not be", matchersOf(t, "job", "=", ""), false, [][]wire.Label{labelsOf("__name__", "a"), labelsOf("job", ""), a}, 2},
		{"a value that is not to be", matchersOf(t, "job", "!=", "x"), false, [][]wire.Label{labelsOf("job", "y"), a}, 1},
		{"a long value", matchersOf(t, "job", "!=", "x"), false, [][]wire.Label{labelsOf("job", strings.Repeat("y", 300)), labelsOf("job", ""), a}, 2},
		{"added by the store", matchersOf(t, "job", "!=", "x"), true, [][]wire.Label{a, labelsOf("job", "y"), a}, -1},
		{"two values cannot be added", matchersOf(t, "job", "!~", "x|y"), true, [][]wire.Label{a, a, labelsOf("job", "y")}, 2},
		{"what one lacks is not added", matchersOf(t, "job", "!=", "x"), true, [][]wire.Label{a, labelsOf("__name__", "a")}, 1},
		{"what one lacked is not added", matchersOf(t, "job", "!=", "x"), true, [][]wire.Label{labelsOf("__name__", "a"), labelsOf("__name__", "b"), a}, 2},
		{"a name is not added", matchersOf(t, "__name__", "!=", "a"), true, [][]wire.Label{a}, 0},
		{"not what the store had to match", matchersOf(t, "job", "=~", "y"), true, [][]wire.Label{a}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSelector(c.ms, c.added)
			for i, ls := range c.series {
				err := s.check(ls)
				if i != c.bad {
					require.NoError(t, err, i)
					continue
				}
				require.ErrorContains(t, err, "series "+wire.Describe(ls)+" does not match {")
				break
			}
		})
	}
}

// A message is not longer for a selector and a series that are.
func TestLongSelector(t *testing.T) {
	var ms []*labels.Matcher
	for i := range 100 {
		ms = append(ms, labels.MustNewMatcher(labels.MatchNotEqual, fmt.Sprint("label", i), strings.Repeat("v", 1000)))
	}
	ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, "x", "y"))
	s := newSelector(ms, false)
	err := s.check(labelsOf("x", strings.Repeat("z", 1_000_000)))
	require.ErrorContains(t, err, "does not match")
	require.Less(t, len(err.Error()), 2000)
}
