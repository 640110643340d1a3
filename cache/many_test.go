package cache

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// newConstant returns a fake that answers with one series of one sample. Making no chunks anew
// makes a cache of many entries quick to fill.
func newConstant(t testing.TB) *fake {
	one := minutely(t, 1, 20*hour, 20*hour)
	return &fake{fetch: func(context.Context, int64, int64) (*selection.Selection, annotations.Annotations, error) {
		return one, nil, nil
	}}
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
// wider one is found; of more than these few are looked at.
func TestWiderOfMany(t *testing.T) {
	c, _ := ticking(t, newConstant(t), 1<<40)
	ask(t, c, many(t, 4000, `other{target="%d"}`)...)
	ask(t, c, many(t, maxWider/2, `up{target="%d"}`)...)
	for wide, narrow := range map[string]string{
		`up`:                 `up{target="new",i="000000"}`,
		`up{job=~"x|y"}`:     `{__name__=~"up",job="x"}`,
		`{job=~"x|y"}`:       `up{job="x"}`,
		`{__name__=~"up.*"}`: `up{job="x"}`,
	} {
		ask(t, c, matchersIn(t, wide))
		require.Contains(t, c.index.Wider(matchersIn(t, narrow), maxWider), c.entries[matching.Key(matchersIn(t, wide))])
	}
	before := c.totals().Subsumed
	ask(t, c, matchersIn(t, `up{zone=~"new.*",i="000000"}`))
	require.Equal(t, before+1, c.totals().Subsumed)
	ask(t, c, many(t, maxWider, `up{zone="%d"}`)...)
	require.Len(t, c.index.Wider(matchersIn(t, `up{i="0"}`), maxWider), maxWider)
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
		e := c.use("large", named("large"))
		c.mu.Unlock()
		e.merging.Lock()
		defer e.merging.Unlock()
		fresh := tile.Span{From: 20 * hour, To: 22 * hour}
		kept, err := c.put(newcomer{e, large, tile.Coverage(nil).With(fresh, *clock), tile.Spans{fresh}, worth})
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
	require.Equal(t, map[string]int{"cache.go": 1, "drop.go": 1, "entry.go": 1, "evict.go": 2}, walks, "Clear, affected, tidy, all, sample: use all()")
}
