package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExampleConfiguration: the example is a configuration that serve takes.
func TestExampleConfiguration(t *testing.T) {
	s, err := readSettings("../../../../examples/promwarp.yml")
	require.NoError(t, err)
	s.Divide()
	require.NoError(t, s.Validate())
	require.Len(t, s.RemoteRead, 1)
}

// TestExampleAggregates: so is the example of custom aggregates.
func TestExampleAggregates(t *testing.T) {
	s, err := readSettings("../../../../examples/aggregates.yml")
	require.NoError(t, err)
	s.Divide()
	require.NoError(t, s.Validate())
	require.Len(t, s.Aggregates, 7)
	l, err := s.Library()
	require.NoError(t, err)
	_, err = l.Parse("rate:geomean")
	require.NoError(t, err)
}
