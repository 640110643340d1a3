package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// ticking returns a cache with a limit whose clock moves when told.
func ticking(t testing.TB, up Upstream, limit int64) (c *Cache, clock *int64) {
	clock = new(int64)
	*clock = now
	return New(up, Options{HostBytes: limit, Tile: testTile, Now: func() time.Time { return time.UnixMilli(*clock) }}), clock
}

// note is a note of so many bytes.
type note int64

func (n note) SizeBytes() int64 { return int64(n) }

// TestNotesTakeRoom: what queries note on what is kept counts as long as that is kept,
// and others make room for it.
func TestNotesTakeRoom(t *testing.T) {
	up := newMinutely(t, 10)
	one := sizeOfOne(t, 10)
	c, _ := ticking(t, up, 4*one+one/4)
	for i := range 3 {
		query(t, c, 10*hour, 20*hour-1, fmt.Sprint("m", i))
	}
	before := c.Stats()
	require.Equal(t, 3, before.Entries)
	noted, _, err := c.get(t.Context(), 10*hour, 20*hour-1, named("m0"))
	require.NoError(t, err)
	selection.Note(noted.Notes(), "large", func() note { return note(one) })
	require.GreaterOrEqual(t, c.Stats().Bytes, before.Bytes+one)
	require.LessOrEqual(t, c.Stats().Bytes, c.Stats().Limit)

	for range 2 {
		query(t, c, 10*hour, 20*hour-1, "m3")
	}
	require.Positive(t, c.totals().Evicted, "without the note there is room for four")
	require.LessOrEqual(t, c.Stats().Bytes, c.Stats().Limit)
	c.Clear()
	require.Zero(t, c.Stats().Bytes)
}

// TestNotesOfOneThatMakesRoom: tiles leave the selector with the notes, which go too.
func TestNotesOfOneThatMakesRoom(t *testing.T) {
	up := newMinutely(t, 10)
	one := sizeOfOne(t, 10)
	c, clock := ticking(t, up, 3*one)
	query(t, c, 10*hour, 20*hour-1, "m0")
	noted, _, err := c.get(t.Context(), 10*hour, 20*hour-1, named("m0"))
	require.NoError(t, err)
	selection.Note(noted.Notes(), "large", func() note { return note(one) })
	*clock += hour
	for i := range 2 {
		query(t, c, 10*hour, 20*hour-1, fmt.Sprint("m", i+1))
	}
	require.LessOrEqual(t, c.Stats().Bytes, c.Stats().Limit)
	require.Less(t, c.Stats().Bytes, 3*one, "the note is not there any more")
	require.Equal(t, 3, c.Stats().Entries, "and most of what it was on is")
}

// TestNotesGoWithWhatIsReplaced: when a selector gets more, the notes on what it had
// make room for that.
func TestNotesGoWithWhatIsReplaced(t *testing.T) {
	up := newMinutely(t, 10)
	one := sizeOfOne(t, 10)
	c, _ := ticking(t, up, 3*one+one/4)
	for i := range 2 {
		query(t, c, 10*hour, 20*hour-1, fmt.Sprint("m", i))
	}
	noted, _, err := c.get(t.Context(), 10*hour, 20*hour-1, named("m0"))
	require.NoError(t, err)
	selection.Note(noted.Notes(), "large", func() note { return note(one) })
	query(t, c, 10*hour, 24*hour-1, "m0")
	require.Zero(t, c.totals().Evicted)
	require.Less(t, c.Stats().Bytes, 3*one)
}

// sizeOfOne is the memory that n hours of ten series take.
func sizeOfOne(t testing.TB, hours int64) int64 {
	c, _ := ticking(t, newMinutely(t, 10), DefaultHostBytes)
	query(t, c, 10*hour, (10+hours)*hour-1, "m")
	return c.Stats().Bytes
}

// What many look at once does not push out what is asked for again and again, as
// long as that goes on.
func TestScansPushOutNothing(t *testing.T) {
	up := newMinutely(t, 10)
	c, clock := ticking(t, up, 4*sizeOfOne(t, 10))
	dashboards := func() {
		for i := range 3 {
			query(t, c, 10*hour, 20*hour-1, fmt.Sprintf("m%d", i))
		}
	}
	for range 5 {
		dashboards()
		*clock += hour / 60
	}
	for i := range 50 {
		query(t, c, 10*hour, 30*hour-1, fmt.Sprintf("scan%d", i))
		*clock += hour / 60
		if i%10 == 9 {
			up.asked()
			dashboards()
			require.Empty(t, up.asked())
		}
	}
	require.Positive(t, c.totals().Refused)

	// Days later nobody remembers.
	*clock += 30 * hour
	query(t, c, 10*hour, 40*hour-1, "scan")
	up.asked()
	query(t, c, 10*hour, 40*hour-1, "scan")
	require.Empty(t, up.asked())
}

// A dashboard over the last day that is looked at for a week needs no more memory
// than a day and a bit: what has left its range goes, tile by tile.
func TestMovingDashboard(t *testing.T) {
	up := newMinutely(t, 10)
	one := sizeOfOne(t, 28)
	c, clock := ticking(t, up, one+one/4)
	query(t, c, *clock-24*hour, *clock, "m")
	up.asked()
	for range 7 * 24 * 4 {
		*clock += hour / 4
		got := query(t, c, *clock-24*hour, *clock, "m")
		requireMinutely(t, got, 10, *clock-24*hour, *clock)
		fetched := int64(0)
		for _, r := range up.asked() {
			fetched += r.maxt - r.mint + 1
		}
		require.LessOrEqual(t, fetched, 5*hour)
	}
	require.Positive(t, c.totals().Evicted)
	require.Zero(t, c.totals().Evictions)
}

// Of more than fits, asked for in turn, a part stays.
func TestMoreThanFits(t *testing.T) {
	up := newMinutely(t, 10)
	c, clock := ticking(t, up, 5*sizeOfOne(t, 10))
	round := func() {
		for i := range 8 {
			requireMinutely(t, query(t, c, 10*hour, 20*hour-1, fmt.Sprintf("m%d", i)), 10, 10*hour, 20*hour-1)
			*clock += hour / 120
		}
	}
	for range 20 {
		round()
	}
	before := c.totals()
	for range 10 {
		round()
	}
	after := c.totals()
	require.Greater(t, after.Hits-before.Hits, int64(10*8*5)*2/5, "two fifths of the tiles")
	require.LessOrEqual(t, after.Bytes, after.Limit)
}

// What a running query holds is not evicted: its memory would not be free.
func TestHeldIsNotEvicted(t *testing.T) {
	up := newMinutely(t, 10)
	c, clock := ticking(t, up, 2*sizeOfOne(t, 10))
	q, err := c.Querier(12*hour, 16*hour-1)
	require.NoError(t, err)
	query(t, c, 10*hour, 20*hour-1, "held")
	read(t, q.Select(t.Context(), true, nil, named("held")...))
	flood := func() {
		*clock += 100 * hour
		for i := range 10 {
			query(t, c, 10*hour, 20*hour-1, fmt.Sprintf("m%d", i))
		}
		up.asked()
	}
	flood()
	query(t, c, 12*hour, 16*hour-1, "held")
	require.Empty(t, up.asked())
	query(t, c, 10*hour, 12*hour-1, "held")
	require.NotEmpty(t, up.asked(), "what it does not hold goes")
	require.NoError(t, q.Close())
	require.NoError(t, q.Close())
	flood()
	query(t, c, 12*hour, 16*hour-1, "held")
	require.NotEmpty(t, up.asked())
}
