package prefetch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestList: whatever the list, it stays what it is.
func TestList(t *testing.T) {
	List([]int64(nil))
	List(make([]struct{}, 3))
	for n := range 200 {
		list := make([]byte, n)
		for i := range list {
			list[i] = byte(i)
		}
		List(list)
		for i := range list {
			require.Equal(t, byte(i), list[i])
		}
	}
}
