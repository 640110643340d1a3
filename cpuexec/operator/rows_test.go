package operator

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFreeRows: each row is one worker's at a time, those that wait for a row get one, and all are
// free again at the end.
func TestFreeRows(t *testing.T) {
	const workers = 6
	for _, n := range []int{workers + 1, 70, 1024} {
		f := newFreeRows(workers, n, workers)
		holders := make([]atomic.Int32, n)
		var wg sync.WaitGroup
		for worker := range workers {
			wg.Go(func() {
				held := []int32{}
				for i := range 20_000 {
					row := f.take(worker)
					if row < workers || holders[row].Add(1) != 1 {
						t.Errorf("row %d is not free", row)
						return
					}
					held = append(held, row)
					if n == workers+1 && i%5000 == 0 {
						time.Sleep(time.Millisecond) // the others are put to sleep meanwhile
					}
					for len(held) > 0 && (i%7 != 0 || len(held) > (n-workers)/workers-1) {
						row := held[0]
						held = held[1:]
						holders[row].Add(-1)
						if f.put(row); i%16 == 0 {
							runtime.Gosched()
						}
					}
				}
				for _, row := range held {
					holders[row].Add(-1)
					f.put(row)
				}
			})
		}
		wg.Wait()
		free := map[int32]bool{}
		for range n - workers {
			free[f.take(0)] = true
		}
		require.Len(t, free, n-workers)
		require.EqualValues(t, -1, f.find(0))
	}
}

// TestFreeRowsStop: who waits for a row goes on without one once nobody is to wait.
func TestFreeRowsStop(t *testing.T) {
	f := newFreeRows(2, 2, 2)
	got := make(chan int32)
	for worker := range 2 {
		go func() { got <- f.take(worker) }()
	}
	require.Eventually(t, func() bool { return f.waiting.Load() == 2 }, 10*time.Second, time.Millisecond)
	f.giveUp()
	require.EqualValues(t, -1, <-got)
	require.EqualValues(t, -1, <-got)
}
