package disk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// saverOf returns a saver of which write writes.
func saverOf(grace time.Duration, write func(ctx context.Context, key string) (bool, error)) *Saver {
	return NewSaver(&Store{log: slog.New(slog.DiscardHandler)}, write, time.Minute, grace)
}

// TestCloseEnds: what is still to be written when the saver is closed is, but not without end:
// after the grace what is under way is the last.
func TestCloseEnds(t *testing.T) {
	for name, test := range map[string]struct {
		grace    time.Duration
		begun    int
		leftover int
	}{"time enough": {time.Hour, 10, 0}, "not enough": {time.Minute, 1, 10}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := 0
				s := saverOf(test.grace, func(ctx context.Context, _ string) (bool, error) {
					begun++
					time.Sleep(5 * time.Minute) // a slow disk
					return ctx.Err() == nil, ctx.Err()
				})
				for i := range 10 {
					s.Save(fmt.Sprint(i))
				}
				s.Close()
				require.Equal(t, test.begun, begun)
				require.Equal(t, test.leftover, s.Left())
			})
		})
	}
}

// A write that fails is tried again when the wait is over, even of the empty key.
func TestFailedWriteIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		wrote := 0
		s := saverOf(time.Second, func(context.Context, string) (bool, error) {
			if full.Load() {
				return true, errors.New("disk full")
			}
			wrote++
			return true, nil
		})
		s.Save("")
		synctest.Wait()
		require.True(t, s.Failing())
		require.Equal(t, 1, s.Left())
		full.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.False(t, s.Failing())
		require.Equal(t, 1, wrote)
		s.Close()
	})
}
