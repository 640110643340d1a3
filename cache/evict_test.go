package cache

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// ticking returns a cache with a limit whose clock moves when told.
func ticking(t testing.TB, up Upstream, limit int64) (c *Cache, clock *int64) {
	clock = new(int64)
	*clock = now
	return New(up, Options{HostBytes: limit, Tile: testTile, Now: func() time.Time { return time.UnixMilli(*clock) }}), clock
}

// note is a note of a size in bytes.
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
	selection.Note(noted.Notes, "large", func() note { return note(one) })
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
	selection.Note(noted.Notes, "large", func() note { return note(one) })
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
	selection.Note(noted.Notes, "large", func() note { return note(one) })
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

	// Days later its use has faded.
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
	q, err := selection.Storage{Source: c}.Querier(12*hour, 16*hour-1)
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
	q, err := selection.Storage{Source: c}.Querier(12*hour, 16*hour-1)
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

// newConstant returns a fake that answers with one series of one sample. Making no chunks anew
// makes a cache of many entries quick to fill.
func newConstant(t testing.TB) *fake {
	one := minutely(t, 1, 20*hour, 20*hour)
	return having(func(int64, int64) *selection.Selection { return one })
}

// many returns n selectors that differ in a number, in the given form.
func many(t testing.TB, n int, form string) (out [][]*labels.Matcher) {
	for i := range n {
		out = append(out, matchersIn(t, fmt.Sprintf(form, i)))
	}
	return out
}

// ask asks for one tile of each selector.
func ask(t testing.TB, c *Cache, selectors ...[]*labels.Matcher) {
	for _, ms := range selectors {
		_, _, err := c.get(t.Context(), 20*hour, 22*hour-1, ms)
		require.NoError(t, err)
	}
}

// TestWiderOfMany: among as many entries of one metric name as are looked at, and many of others, the
// wider one is found.
func TestWiderOfMany(t *testing.T) {
	c, _ := ticking(t, newConstant(t), 1<<40)
	ask(t, c, many(t, 4000, `other{target="%d"}`)...)
	ask(t, c, many(t, maxWider/2, `up{target="%d"}`)...)
	for wide, narrow := range map[string]string{
		`up`:                 `up{target="new",i="000000"}`,
		`{job=~"x|y"}`:       `up{job="x"}`,
		`{__name__=~"up.*"}`: `up{job="x"}`,
	} {
		ask(t, c, matchersIn(t, wide))
		e := &entry{matchers: matchersIn(t, narrow), name: "up"}
		require.NotNil(t, c.widest(e, c.moment(), c.entries[matching.Key(matchersIn(t, wide))].covered, maxWider).entry)
	}
	before := c.totals().Subsumed
	ask(t, c, matchersIn(t, `up{zone=~"new.*",i="000000"}`))
	require.Equal(t, before+1, c.totals().Subsumed)
}

// TestManyMakeRoom: of many entries only some are looked at for what leaves, and a newcomer
// larger than these find room; it does not where all are worth more.
func TestManyMakeRoom(t *testing.T) {
	c, clock := ticking(t, newConstant(t), 1<<40)
	ask(t, c, many(t, 8*maxSample, `up{target="%d"}`)...)
	n := 0
	for range c.sample(maxSample) {
		n++
	}
	require.Equal(t, maxSample, n)
	n = 0
	for range c.sample(maxLacking) {
		n++
	}
	require.LessOrEqual(t, n, maxLacking)

	*clock += hour
	held := c.Stats().Bytes
	c.limit = held
	put := func(worth int64) (bool, *entry) {
		large := minutely(t, 400, 20*hour, 22*hour-1)
		require.Greater(t, large.SizeBytes(), held/8, "more than one sample has")
		require.Less(t, large.SizeBytes(), held/2)
		c.mu.Lock()
		e := c.use(&question{key: "large", matchers: named("large"), at: tile.Moment{Now: *clock}})
		c.mu.Unlock()
		fresh := tile.Span{From: 20 * hour, To: 22 * hour}
		e.used = e.used.With(fresh, worth)
		kept, err := c.put(&newcomer{entry: e, drops: e.drops, base: e.sel, sel: large, covered: tile.Coverage(nil).With(fresh, *clock), fresh: fresh, worth: worth})
		require.NoError(t, err)
		return kept, e
	}
	kept, _ := put(0)
	require.False(t, kept, "all are worth more")
	require.Equal(t, held, c.Stats().Bytes)
	kept, _ = put(*clock + hour)
	require.True(t, kept)
	require.LessOrEqual(t, c.Stats().Bytes, held)
	require.Greater(t, c.Stats().Bytes, held*7/8, "little more has left than had to")

	freed := c.Reclaim(held / 3) // more than a sample has
	require.GreaterOrEqual(t, freed, held/3)
	require.Less(t, freed, held/2)
}

// TestWalksLetGo: what goes over all entries lets others have the mutex in between.
func TestWalksLetGo(t *testing.T) {
	const all = 64 * maxSample
	c := &Cache{entries: map[string]*entry{}, tile: 1}
	for i := range all {
		c.entries[strconv.Itoa(i)] = &entry{tail: math.MaxInt64}
	}
	got, seen := make(chan int, 1), 0
	c.now = func() time.Time { // once for each entry that wanted looks at, and before
		if seen++; seen == 2 {
			go func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				got <- seen
			}()
		}
		if seen%maxSample == 2 {
			time.Sleep(time.Millisecond)
		}
		return time.UnixMilli(0)
	}
	require.Empty(t, c.wanted())
	require.Less(t, <-got, all/2)

	walks := map[string]int{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		if n := strings.Count(string(text), "range c.entries"); n > 0 && !strings.HasSuffix(f, "_test.go") {
			walks[f] = n
		}
	}
	require.Equal(t, map[string]int{"entry.go": 1, "drop.go": 1, "evict.go": 2}, walks, "affected, tidy, all, sample: use all()")
}
