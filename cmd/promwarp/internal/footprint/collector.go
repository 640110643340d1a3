package footprint

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// PaceCollector keeps the garbage collector from letting the heap grow to twice
// what is kept, until ctx ends. What is kept is mostly samples, without pointers,
// which it marks at no cost, so it may run often: a quarter more than what is
// kept, or collectAt bytes, is the room it gets. GOGC in the environment wins.
func PaceCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := 100
	for tick := time.NewTicker(time.Second); ; {
		metrics.Read(live)
		if want := collectPercent(live[0].Value.Uint64()); want < now*9/10 || want > now*10/9 {
			now = want
			debug.SetGCPercent(now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

// collectAt is the room in bytes that a small heap gets.
const collectAt = 64 << 20

// collectPercent is by how many percent a heap of so many live bytes may grow.
func collectPercent(live uint64) int {
	return int(min(max(100*collectAt/max(live, 1), 25), 100))
}
