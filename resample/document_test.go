package resample

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
)

// TestDocument: docs/query.md names every field, aggregate, filling and code, and all their aliases.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile("../docs/query.md")
	require.NoError(t, err)
	text := string(b)
	named := func(name string) { require.Contains(t, text, "`"+name+"`") }
	for _, f := range fields {
		if f.name == "analyze" {
			continue // which is /explain's
		}
		for _, name := range append([]string{f.name}, f.aliases...) {
			named(name)
		}
	}
	for _, d := range aggregate.Definitions {
		if d.Quantile {
			named("NN" + d.Name)
			continue
		}
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			named(name)
			a, err := aggregate.Library{}.Parse(name)
			require.NoError(t, err)
			require.Equal(t, d, a.Definition)
		}
	}
	for name := range fillings {
		named(name)
	}
	for _, code := range Codes {
		named(code)
	}
	most := strconv.Itoa(bucket.MaxBuckets)
	require.Contains(t, text, most[:3]+" "+most[3:])
}
