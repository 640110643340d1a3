package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFresh fails when the description of a loop has changed and what is generated from it has not.
func TestFresh(t *testing.T) {
	for name, text := range files() {
		have, err := os.ReadFile("../" + name)
		require.NoError(t, err)
		require.Equal(t, text, string(have), "go generate ./cpuexec/exact")
	}
}
