package parallel

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, cores := range []int{1, 3} {
		runtime.GOMAXPROCS(cores)
		for _, n := range []int{0, 1, 2, 1000} {
			calls := make([]atomic.Int32, n)
			For(n, func(i int) { calls[i].Add(1) })
			for i := range calls {
				require.Equal(t, int32(1), calls[i].Load(), "call %d of %d", i, n)
			}
		}
	}
}

// A panic reaches the caller, after the other calls.
func TestForPanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	var under atomic.Int32
	var p *Panic
	require.ErrorAs(t, Rescue(func() error {
		For(1000, func(i int) {
			under.Add(1)
			defer under.Add(-1)
			if i == 7 {
				panic("a bug")
			}
		})
		return nil
	}), &p)
	require.Equal(t, "a bug", p.Value)
	require.Contains(t, string(p.Stack), "TestForPanics")
	require.Zero(t, under.Load())
}
