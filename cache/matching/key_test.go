package matching

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
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
