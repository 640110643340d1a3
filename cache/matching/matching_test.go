package matching

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

func TestSelectorKey(t *testing.T) {
	eq := func(n, v string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchEqual, n, v) }
	re := func(n, v string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchRegexp, n, v) }
	key := func(ms ...*labels.Matcher) string { return Key(ms) }

	require.Equal(t, key(eq("a", "1"), re("b", "2")), key(re("b", "2"), eq("a", "1")))
	require.Equal(t, key(eq("a", "1")), key(eq("a", "1"), eq("a", "1")))
	different := []string{
		key(), key(eq("a", "1")), key(re("a", "1")), key(eq("a", "")), key(eq("", "a")), key(eq("a1", "")), key(eq("", "a1")),
		key(eq("a", "1"), eq("b", "2")), key(eq("a", "1b"), eq("b", "2")), key(eq("a", "1\x00\x01b\x012")),
		key(eq("a", "2"), eq("b", "1")), key(eq("a", "1"), eq("a", "2")),
	}
	for i, a := range different {
		for _, b := range different[:i] {
			require.NotEqual(t, a, b)
		}
	}
	ms := []*labels.Matcher{eq("b", "2"), eq("a", "1")}
	Key(ms)
	require.Equal(t, "b", ms[0].Name, "the caller's matchers are left as they are")
}

func TestMayMeet(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`a`, `a`, true},
		{`a`, `b`, false},
		{`a{x="1"}`, `a{y="1"}`, true},
		{`a{x="1"}`, `a{x=~"1|2"}`, true},
		{`a{x="3"}`, `a{x=~"1|2"}`, false},
		{`a{x=~"3"}`, `a{x=~"1|2"}`, true}, // not certain
		{`a{x!="1"}`, `a{x="1"}`, false},
		{`a{x=""}`, `a{x!=""}`, false},
		{`a{x=""}`, `a`, true},
		{`{__name__=~"a.*"}`, `ab`, true},
		{`{__name__=~"a.*"}`, `b`, false},
	} {
		a, err := p.ParseMetricSelector(test.a)
		require.NoError(t, err)
		b, err := p.ParseMetricSelector(test.b)
		require.NoError(t, err)
		require.Equal(t, test.want, mayMeet(a, b), "%s %s", test.a, test.b)
		require.Equal(t, test.want, mayMeet(b, a), "%s %s", test.b, test.a)
	}
}
