package rescue

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func Example() {
	var c Catcher
	var wg sync.WaitGroup
	wg.Go(func() {
		defer c.Catch()
		panic("a bug")
	})
	wg.Wait()
	fmt.Println(Do(func() error { c.Rethrow(); return nil }))
	// Output: promwarp panicked: a bug; its log has the stack
}

func TestDo(t *testing.T) {
	require.NoError(t, Do(func() error { return nil }))
	some := errors.New("some")
	require.Equal(t, some, Do(func() error { return some }))
	require.Equal(t, some, Do(func() error { panic(some) }), "thrown")
	err := Do(func() error { return []error{}[len(some.Error())] })
	var p *Panic
	require.ErrorAs(t, err, &p)
	require.Contains(t, string(p.Stack), "TestDo")
	require.ErrorAs(t, err, new(runtime.Error))

	var c Catcher
	c.Rethrow()
	require.False(t, c.Caught())
	func() { defer c.Catch(); panic(some) }()
	func() { defer c.Catch(); panic("later") }()
	require.True(t, c.Caught())
	require.PanicsWithValue(t, some, c.Rethrow)
}
