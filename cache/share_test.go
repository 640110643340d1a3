package cache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// What is shared is what one good fetch brought, and nobody holds it for longer than its window.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail error
		var warn annotations.Annotations
		up := &fake{}
		up.fetch = func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
			return minutely(t, 3, mint, min(maxt, time.Now().UnixMilli())), warn, fail
		}
		c := New(up, Options{HostBytes: DefaultHostBytes, Recheck: -1})
		ctx := Shared(t.Context(), 10*time.Second)
		end := time.Now().Add(2 * time.Minute).UnixMilli()
		look := func() (fetches int) {
			queryIn(ctx, t, c, end-hour/12, end, "m")
			return len(up.asked())
		}
		require.Equal(t, 1, look())
		require.Zero(t, look())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		c.mu.Lock()
		require.Empty(t, c.entries, "what is shared is let go")
		c.mu.Unlock()

		require.Equal(t, 1, look())
		_, err := c.Drop(end-hour, end)
		require.NoError(t, err)
		require.Equal(t, 1, look(), "what was dropped is fetched again")

		time.Sleep(time.Minute)
		fail = errors.New("not now")
		for range 2 {
			q, err := c.Querier(end-hour/12, end)
			require.NoError(t, err)
			_, _, err = drain(q.Select(ctx, true, nil, named("m")...))
			require.ErrorIs(t, err, fail)
			require.NoError(t, q.Close())
		}
		require.Len(t, up.asked(), 2, "a failure is not shared")

		fail, warn = nil, annotations.New().Add(errors.New("half of it"))
		require.Equal(t, 1, look())
		require.Equal(t, 1, look(), "what came with a warning is not shared")
		time.Sleep(time.Minute)
		synctest.Wait()
	})
}
