package matching

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// TestIndexAgainstAll: whatever selectors there are, all that are wider than another are found,
// and none after it has been removed.
func TestIndexAgainstAll(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	values := []string{"", "a", "b", "a|b", "a|a", "(a)", ".*", ".+", "|a", "(?i)a", "a\n", "[ab]"}
	some := func() (ms []*labels.Matcher) {
		for range r.IntN(4) {
			name := []string{"__name__", "__name__", "x", "y"}[r.IntN(4)]
			ms = append(ms, labels.MustNewMatcher(labels.MatchType(r.IntN(4)), name, values[r.IntN(len(values))]))
		}
		return ms
	}
	wider := 0
	for range 30 {
		x, all := Index[int]{}, make([][]*labels.Matcher, 200)
		for i := range all {
			all[i] = some()
			x.Add(i, all[i])
		}
		for range 200 {
			narrow := some()
			found := x.Wider(narrow, 1<<20)
			for i, wide := range all {
				if ImpliesAll(narrow, wide) {
					wider++
					require.Contains(t, found, i, "%s of %s", Text(wide), Text(narrow))
				}
			}
			require.LessOrEqual(t, len(x.Wider(narrow, 7)), 7)
		}
		for i, ms := range all {
			x.Remove(i, ms)
		}
		require.Empty(t, x)
	}
	require.Greater(t, wider, 1000)
}
