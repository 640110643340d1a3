package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTally(t *testing.T) {
	whole, cut := &tally{outcomes: map[string]int{}}, &tally{outcomes: map[string]int{}}
	for _, a := range []answer{{code: 200, began: time.Second + slack}, {code: 503}, {code: 400}} {
		whole.add(kind{limit: time.Second}, a)
	}
	cut.add(kind{cut: true}, answer{err: io.EOF, began: time.Hour})
	require.Zero(t, whole.late)
	require.Empty(t, whole.wrong+cut.wrong)
	whole.add(kind{limit: time.Second}, answer{code: 200, began: 3 * time.Second})
	require.Equal(t, 1, whole.late)
	require.Equal(t, 2*time.Second, whole.latest)
	cut.add(kind{cut: true}, answer{code: 500})
	require.Contains(t, cut.wrong, "500")
	whole.add(kind{}, answer{err: io.EOF})
	require.Contains(t, whole.wrong, "no answer")
	require.Equal(t, map[string]int{"200": 2, "503": 1, "400": 1, "no answer": 1}, whole.outcomes)
}
