package rouse

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts Cores until the test ends.
func start(tb testing.TB, cores int) *bell {
	if runtime.GOOS != "linux" {
		tb.Skip("only on Linux")
	}
	stop, err := Start(cores)
	require.NoError(tb, err)
	b := hung.Load()
	tb.Cleanup(func() {
		stop()
		require.Nil(tb, hung.Load())
		Cores(cores) // does nothing
	})
	return b
}

// BenchmarkCores has a goroutine a core begin after a pause, and says when the last of them did, in
// us.
func BenchmarkCores(b *testing.B) {
	cores := runtime.GOMAXPROCS(0)
	for _, way := range []string{"runtime", "rouse"} {
		b.Run(way, func(b *testing.B) {
			if way == "rouse" {
				start(b, cores)
			}
			var last []time.Duration
			for b.Loop() {
				time.Sleep(5 * time.Millisecond)
				begun := make([]time.Duration, cores)
				first := time.Now()
				Cores(cores)
				var wg sync.WaitGroup
				for i := range begun {
					wg.Go(func() {
						begun[i] = time.Since(first)
						for time.Since(first) < 2*time.Millisecond {
						}
					})
				}
				wg.Wait()
				last = append(last, slices.Max(begun))
			}
			slices.Sort(last)
			b.ReportMetric(float64(last[len(last)/2].Microseconds()), "us-to-last")
			b.ReportMetric(float64(last[len(last)*9/10].Microseconds()), "us-p90")
		})
	}
}

// TestFew: for few cores nothing waits.
func TestFew(t *testing.T) {
	require.Nil(t, start(t, fewest-1))
}
