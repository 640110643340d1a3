package footprint

import (
	"context"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCollectPercent(t *testing.T) {
	require.Equal(t, 100, collectPercent(0))
	require.Equal(t, 100, collectPercent(10<<20))
	require.Equal(t, 64, collectPercent(100<<20))
	require.Equal(t, 25, collectPercent(10<<30))
}

func TestPaceCollector(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	kept := make([]byte, 1<<30)
	debug.FreeOSMemory()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { PaceCollector(ctx); close(done) }()
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	require.Eventually(t, func() bool { return percent() == 25 }, 5*time.Second, 10*time.Millisecond)
	cancel()
	<-done
	require.Len(t, kept, 1<<30)

	t.Setenv("GOGC", "50")
	debug.SetGCPercent(50)
	PaceCollector(t.Context()) // leaves it alone
	require.Equal(t, 50, percent())
}
