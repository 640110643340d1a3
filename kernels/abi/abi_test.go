package abi

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatus(t *testing.T) {
	require.NoError(t, Status(0).Err())
	require.EqualError(t, Status(1).Err(), "its bit stream ends before its last sample")
	require.EqualError(t, Status(2).Err(), "its bit stream has a time of more than 64 bits")
	require.EqualError(t, Status(3).Err(), "its timestamps do not increase")
	require.EqualError(t, Status(77).Err(), "the GPU reports status 77 of it")
}

// ExampleSeriesChunk_Entry is the entry that the comment of Entry shows.
func ExampleSeriesChunk_Entry() {
	const since = 1_790_000_000_000
	c := SeriesChunk{ChunkRef{Off: 4096, Len: 360, Samples: 120}, since + 1000, since + 1000 + 1_785_000}
	e := c.Entry(since)
	fmt.Printf("%016x %016x\n", e.where, e.when)
	e = WideEntry(7)
	fmt.Printf("%016x %016x\n", e.where, e.when)
	// Output:
	// 7816800000000200 00d9e540000003e8
	// 0000000000000007 8000000000000000
}
