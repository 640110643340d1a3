package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExplain(t *testing.T) {
	s := Stages{CopiedBytes: 1000}
	require.Zero(t, s.Explain().CopyRate)
	s.Copy = time.Second / 2
	require.InDelta(t, 2000, s.Explain().CopyRate, 1e-9)
}
