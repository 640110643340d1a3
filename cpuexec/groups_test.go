package cpuexec

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// TestGroupsSize: groups say how much memory they take, as notes on a selection.
func TestGroupsSize(t *testing.T) {
	const series, perGroup = 6000, 3
	at := func(i int) labels.Labels {
		return labels.FromStrings("instance", fmt.Sprintf("%06d", i/perGroup), "cpu", fmt.Sprint(i%perGroup))
	}
	g := operator.Group(t.Context(), &plan.Aggregate{Grouping: []string{"instance"}}, series, at)
	require.Len(t, g.Labels, series/perGroup)
	want := 4*series + series/perGroup*selection.LabelBytes(labels.FromStrings("instance", "000000"))
	require.EqualValues(t, want, g.SizeBytes())
	require.EqualValues(t, 4*series, oneGroup(make([]int32, series)).SizeBytes())

	notes := selection.Empty().Notes()
	before := notes.SizeBytes()
	selection.Note(notes, groupsKey{by: "instance"}, func() operator.Groups { return g })
	require.Greater(t, notes.SizeBytes()-before, int64(want))
}
