package pinned

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

// TestLender: what is lent is lent once, up to the bound, and again once it was given
// back; what is still lent when the lender is released stays good.
func TestLender(t *testing.T) {
	h := cudatest.Control(t)
	dev := cudatest.Device(t)
	held := h.Held()
	l := NewLender(dev, 5*8*BufferValues+7)
	require.Nil(t, l.Lend(6), "more than there may be")
	require.Zero(t, h.Calls("cuMemHostRegister_v2"))
	a := l.Lend(2)
	require.Len(t, a, 2)
	require.Equal(t, 2, h.Held()-held)
	b := l.Lend(3)
	require.Len(t, b, 3)
	require.Nil(t, l.Lend(1))
	seen := map[*Buffer]bool{}
	for _, s := range append(append([]*Buffer{}, a...), b...) {
		require.False(t, seen[s])
		seen[s] = true
	}
	l.GiveBack(a, true)
	require.ElementsMatch(t, a, l.Lend(2))
	require.Equal(t, 5, h.Calls("cuMemHostRegister_v2"))
	l.GiveBack(a[:1], false)
	require.Nil(t, l.Lend(1), "the device may yet write to it")
	l.GiveBack(a[1:], true)
	a[1] = nil
	b[0][7] = 7
	require.NoError(t, dev.Do(l.Release))
	require.Nil(t, l.Lend(1))
	require.Equal(t, 7.0, b[0][7])
	l.GiveBack(b, true)
	require.Equal(t, 1, h.Held()-held, "the one that is never lent again")
	require.Nil(t, l.Lend(1))
}

// TestLenderFinds: what is not given back is found once nothing refers to it, and not
// before.
func TestLenderFinds(t *testing.T) {
	dev := cudatest.Device(t)
	l := NewLender(dev, 8*BufferValues)
	for range 3 { // found more than once
		values := l.Lend(1)[0][1000:2000]
		for range 3 {
			runtime.GC()
		}
		require.Nil(t, l.Lend(1))
		values[0] = 1
		runtime.KeepAlive(&values)
		values = nil
		require.Eventually(t, func() bool { runtime.GC(); return freeOf(l) == 1 }, 10*time.Second, time.Millisecond)
	}
	require.NoError(t, dev.Do(l.Release))
}

// TestLenderFails: where no more memory can be locked, there is none to lend.
func TestLenderFails(t *testing.T) {
	h := cudatest.Control(t)
	dev := cudatest.Device(t)
	l := NewLender(dev, 100*8*BufferValues)
	h.Configure("cuMemHostRegister_v2:3=2")
	require.Nil(t, l.Lend(4))
	require.Equal(t, 2, freeOf(l))
	require.Len(t, l.Lend(2), 2)
	require.Nil(t, l.Lend(1))
	require.Equal(t, 3, h.Calls("cuMemHostRegister_v2"), "it is not tried again")
}

func freeOf(l *Lender) int {
	n, _, _ := l.Counts()
	return n
}
