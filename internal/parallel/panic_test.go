package parallel

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func Example() {
	fmt.Println(Rescue(func() error {
		For(3, func(i int) {
			if i == 2 {
				panic("a bug")
			}
		})
		return nil
	}))
	// Output: promwarp panicked: a bug; its log has the stack
}

func TestRescue(t *testing.T) {
	require.NoError(t, Rescue(func() error { return nil }))
	some := errors.New("some")
	require.Equal(t, some, Rescue(func() error { return some }))
	require.Equal(t, some, Rescue(func() error { panic(some) }), "thrown")
	err := Rescue(func() error { return []error{}[len(some.Error())] })
	var p *Panic
	require.ErrorAs(t, err, &p)
	require.Contains(t, string(p.Stack), "TestRescue")
	require.ErrorAs(t, err, new(runtime.Error))
}

func TestRanges(t *testing.T) {
	for _, n := range []int{0, 1, 64, 65, 1000} {
		calls := make([]int, n) // for each i; one goroutine writes one
		Ranges(n, func(from, to int) {
			for i := from; i < to; i++ {
				calls[i]++
			}
		})
		for i, c := range calls {
			require.Equal(t, 1, c, i)
		}
	}
}
