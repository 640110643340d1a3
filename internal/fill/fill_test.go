package fill

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWith(t *testing.T) {
	for n := range 70 {
		list := make([]int32, n+1)
		With(list[:n], 7)
		require.Equal(t, append(slices.Repeat([]int32{7}, n), 0), list)
	}
}
