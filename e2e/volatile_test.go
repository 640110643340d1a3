package e2e

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// volatile are the names of what changes in a Prometheus from one request to the
// next.
var volatile = []string{
	"lastScrape", "lastScrapeDuration", "lastEvaluation", "evaluationTime", "serverTime", "goroutineCount", "maxTime", "chunkCount",
	"keepFiringSince",
}

// settled returns v as JSON reads it, without what is volatile.
func settled(t *testing.T, v any) any {
	t.Helper()
	b, ok := v.([]byte)
	if !ok {
		var err error
		b, err = json.Marshal(v)
		require.NoError(t, err)
	}
	var tree any
	require.NoError(t, json.Unmarshal(b, &tree), "%.200s", b)
	return without(tree, volatile)
}

// without takes members of these names off a JSON value.
func without(v any, names []string) any {
	switch x := v.(type) {
	case []any:
		for i := range x {
			x[i] = without(x[i], names)
		}
	case map[string]any:
		for k := range x {
			if slices.Contains(names, k) {
				delete(x, k)
			} else {
				x[k] = without(x[k], names)
			}
		}
	}
	return v
}
