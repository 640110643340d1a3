package cache

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReclaim: what is worth least makes room, as much as is asked for and little more, and
// is fetched again when it is asked for again.
func TestReclaim(t *testing.T) {
	up := newMinutely(t, 10)
	one := sizeOfOne(t, 10)
	c, clock := ticking(t, up, 20*one)
	for i := range 6 {
		query(t, c, 10*hour, 20*hour-1, fmt.Sprint("once", i))
		*clock += 1000
	}
	for range 5 {
		query(t, c, 10*hour, 20*hour-1, "dashboard")
	}
	before := c.Stats()
	freed := c.Reclaim(2*one + one/2)
	require.GreaterOrEqual(t, freed, 2*one+one/2)
	require.Less(t, freed, 3*one)
	require.Equal(t, before.Bytes-freed, c.Stats().Bytes)
	require.Positive(t, c.totals().Evicted)
	up.asked()
	for _, name := range []string{"dashboard", "once5", "once4", "once3"} {
		query(t, c, 10*hour, 20*hour-1, name)
	}
	require.Empty(t, up.asked(), "the worthiest stay")
	requireMinutely(t, query(t, c, 10*hour, 20*hour-1, "once0"), 10, 10*hour, 20*hour-1)
	require.NotEmpty(t, up.asked())
	require.Greater(t, c.Stats().Bytes, before.Bytes-freed, "it grows again")

	require.Positive(t, c.Reclaim(100*one))
	require.Zero(t, c.Stats().Entries)
	require.Zero(t, c.Reclaim(1), "nothing is left")
}

// TestReclaimHeld: of what a running query holds something of nothing is evicted.
func TestReclaimHeld(t *testing.T) {
	up := newMinutely(t, 10)
	c, _ := ticking(t, up, 20*sizeOfOne(t, 10))
	query(t, c, 10*hour, 20*hour-1, "held")
	query(t, c, 10*hour, 20*hour-1, "other")
	q, err := c.Querier(12*hour, 16*hour-1)
	require.NoError(t, err)
	read(t, q.Select(t.Context(), true, nil, named("held")...))
	up.asked()
	require.Positive(t, c.Reclaim(1<<40))
	query(t, c, 10*hour, 20*hour-1, "held")
	require.Empty(t, up.asked())
	require.NoError(t, q.Close())
	require.Positive(t, c.Reclaim(1<<40))
	require.Zero(t, c.Stats().Entries)
}

// TestReclaimLarge: a selector that takes most of the cache leaves as a whole, since what
// would stay of it must be copied while memory is short; a smaller one leaves in part.
func TestReclaimLarge(t *testing.T) {
	up := newMinutely(t, 10)
	one := sizeOfOne(t, 10)
	for limit, left := range map[int64]int{one + one/4: 0, 10 * one: 1} {
		c, _ := ticking(t, up, limit)
		query(t, c, 10*hour, 20*hour-1, "m")
		require.Equal(t, 1, c.Stats().Entries)
		require.Positive(t, c.Reclaim(one/10))
		require.Equal(t, left, c.Stats().Entries)
		requireMinutely(t, query(t, c, 10*hour, 20*hour-1, "m"), 10, 10*hour, 20*hour-1)
	}
}
