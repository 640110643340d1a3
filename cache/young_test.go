package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

const minute = hour / 60 // ms

// A fetch of the newest samples goes on until now, for queries that end elsewhere. They
// share it if they end before it began.
func TestUntilNow(t *testing.T) {
	up := newGate(newMinutely(t, 3))
	var clock atomic.Int64
	begin := 100*hour + 35*minute + 30_000
	clock.Store(begin)
	c := New(up, Options{
		HostBytes: DefaultHostBytes, Tile: 30 * time.Minute, Recheck: 5 * time.Minute,
		Now: func() time.Time { return time.UnixMilli(clock.Load()) },
	})
	var all sync.WaitGroup
	ask := func(end, shared int64) {
		all.Go(func() {
			sel, _, err := c.get(t.Context(), 99*hour, end, named("m"))
			if err != nil {
				t.Error(err)
				return
			}
			got, _ := read(t, sel.SeriesSet(99*hour, end, nil))
			requireMinutely(t, got, 3, 99*hour, end)
		})
		require.Eventually(t, func() bool { return c.totals().Shared == shared && c.metrics.misses.value()+c.totals().Shared > 0 }, 10*time.Second, time.Millisecond)
	}
	ask(begin-2*minute, 0)
	<-up.entered
	ask(begin-minute, 1)
	ask(begin-1, 2)
	clock.Add(minute)
	ask(begin-3*minute, 3)
	require.Equal(t, []request{{99 * hour, begin}}, up.asked())
	ask(begin, 4) // the tiles alone: until this very moment there may be more by now
	select {
	case <-up.entered:
	case <-time.After(10 * time.Second):
		t.Error("it shared a fetch that began before")
	}
	require.Equal(t, []request{{100 * hour, begin + minute}}, up.asked())
	close(up.open)
	all.Wait()
}

// histograms is a selection of one series of them.
func histograms(t *testing.T) *selection.Selection {
	k := chunkenc.NewHistogramChunk()
	app, err := k.Appender()
	require.NoError(t, err)
	_, _, _, err = app.AppendHistogram(nil, 0, 4000, tsdbutil.GenerateTestHistogram(1), false)
	require.NoError(t, err)
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	require.NoError(t, b.Chunk(chunkenc.EncHistogram, 4000, 4000, k.Bytes()))
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// A fetch is told what to expect where that is certain to be samples alone.
func TestExpected(t *testing.T) {
	var got selection.Expectation
	answer := func(mint, maxt int64) *selection.Selection { return minutely(t, 20, mint, maxt) }
	up := &fake{fetch: func(ctx context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		got = selection.Expected(ctx)
		return answer(mint, maxt), nil, nil
	}}
	c := New(up, Options{HostBytes: DefaultHostBytes, Recheck: 5 * time.Minute, Now: at(now)})
	query(t, c, now-hour, now, "m")
	require.Empty(t, got.Series)
	require.Zero(t, got.Samples)
	query(t, c, now-hour, now, "m")
	require.Len(t, got.Series, 20)
	require.Equal(t, 2, got.Samples, "of a minute, one each minute")
	query(t, c, now-hour, now+hour, "m")
	require.Equal(t, 2, got.Samples, "there is nothing after now")

	require.False(t, got.Signed(0), "times are not negative")

	answer = func(int64, int64) *selection.Selection { return histograms(t) }
	query(t, c, 1000, now, "h")
	query(t, c, 1000, now, "h")
	require.Len(t, got.Series, 1)
	require.Zero(t, got.Samples)
}
