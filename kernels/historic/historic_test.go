package historic

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPTX(t *testing.T) {
	for _, name := range []string{Atomic, Blocks, Shared, Runs} {
		require.Contains(t, string(PTX(name)), ".visible .entry "+name+"(", name)
	}
	require.Panics(t, func() { PTX("absent") })
}
