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
