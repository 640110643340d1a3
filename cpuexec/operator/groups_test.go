package operator

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// TestGroupEnds: grouping ends soon after its context.
func TestGroupEnds(t *testing.T) {
	const series = 100_000
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := Group(ctx, &plan.Aggregate{Grouping: []string{"a"}}, series, func(i int) labels.Labels {
		return labels.FromStrings("a", fmt.Sprint(i))
	})
	require.Len(t, g.Of, series)
	require.NotEmpty(t, g.Labels)
	require.Less(t, len(g.Labels), series/2)
}
