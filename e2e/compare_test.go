package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine/compare"
)

// tolerance is how far apart two values may be, relative to the larger one.
const tolerance = 1e-12

// requireSame requires two servers' answers to say the same.
func requireSame(t *testing.T, want, got answer, ordered bool, what string) {
	t.Helper()
	require.NoError(t, same(want, got, ordered), what)
}

// same says how the answers differ: in status, errors, warnings, infos, type,
// series, timestamps, or values by more than the tolerance. The order of the
// series counts if ordered is set, and in any matrix.
func same(want, got answer, ordered bool) error {
	w, err := compare.Parse(want.code, want.body)
	var refused *compare.Refused
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("the expected answer: %w", err)
	}
	g, err := compare.Parse(got.code, got.body)
	var too *compare.Refused
	if err != nil && !errors.As(err, &too) {
		return err
	}
	switch {
	case refused == nil && too == nil && want.code == got.code:
		return sameAnswer(w, g, ordered)
	case refused == nil || too == nil || want.code != got.code || refused.Type != too.Type || !sameError(refused.Text, too.Text):
		return fmt.Errorf("status %d %+v instead of %d %+v", got.code, too, want.code, refused)
	}
	return nil
}

// sameAnswer says how answers that are no errors differ.
func sameAnswer(want, got *compare.Answer, ordered bool) error {
	if !ordered && want.Type == parser.ValueTypeVector {
		want.Sort()
		got.Sort()
	}
	if d := compare.Differ(want, got, tolerance); d != nil {
		return errors.New(d.String())
	}
	return nil
}

// sameError compares the texts of errors but for which of several duplicate series they
// name, which is chance in Prometheus where an operator has fill values.
func sameError(a, b string) bool {
	const duplicate = "found duplicate series for the match group "
	x, _, both := strings.Cut(a, duplicate)
	y, _, too := strings.Cut(b, duplicate)
	return a == b || both && too && x == y
}

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
