// Package kernels holds the code that runs on GPUs: CUDA C++ sources, the PTX
// that `make kernels` builds from them, and the layouts of what they read and
// write. Folder host compiles the same sources for the host.
package kernels

import (
	"embed"
	"errors"
	"fmt"
)

//go:embed *.ptx
var files embed.FS

// The kernels. Each is in the source file, and the PTX, of its name.
const (
	DecodeXOR    = "decode_xor"
	FoldXOR      = "fold_xor"
	GroupSum     = "group_sum"
	Check        = "check"
	DecodeSeries = "decode_series"
	DecodeMixed  = "decode_mixed"
	WindowEnds   = "window_ends"
	WindowAll    = "window_all"
	WindowPanes  = "window_panes"
	WindowJoin   = "window_join"
	WindowRate   = "window_rate"
	WindowPairs  = "window_pairs"
	WindowFold   = "window_fold"
	WindowOrder  = "window_order"
	FusedAll     = "fused_all"
	FusedEnds    = "fused_ends"
	FusedRate    = "fused_rate"
	StepReads    = "step_reads"
	GroupFold    = "group_fold"
	FoldSquares  = "group_fold_squares"
	GroupRank    = "group_rank"
	Quantile     = "group_quantile"
	GroupResult  = "group_result"
	MapValues    = "map_values"
	SeriesRows   = "series_rows"
)

// Mixed is the name of a fused kernel for batches with XOR2 chunks.
func Mixed(fused string) string { return fused + "_mixed" }

// MinMajor and MinMinor are the lowest compute capability that the PTX is for.
const MinMajor, MinMinor = 7, 5

// PTX returns the PTX with the kernel of that name.
func PTX(kernel string) []byte {
	b, err := files.ReadFile(kernel + ".ptx")
	if err != nil {
		panic(err) // a name that is not among the constants
	}
	return b
}

// The shapes of blocks: threads of the decoding kernels and of check, and the
// steps and the parts of a group that a block of group_sum has a thread for.
const (
	DecodeBlock   = 128
	CheckBlock    = 256
	GroupSumSteps = 32
	GroupSumParts = 8
	WindowBlock   = 128
	OrderBlock    = 64
	WindowAbreast = 4 // steps that window kernels compute at once
	FoldBlock     = 32
	ReadsSteps    = 4 // steps that a block of step_reads has threads for
	ResultBlock   = 128
	RowsBlock     = 32 // steps, as of group_rank and group_quantile
	QuantileParts = 32 // the most threads that share a group's series in group_quantile
)

// ChunkRef addresses a chunk in a slab.
type ChunkRef struct {
	Off     uint64 // of its first byte, a multiple of 8
	Len     uint32 // bytes, below 2^28; the slab is readable up to the next multiple of 8
	Samples uint32 // from the chunk's header
}

// Fold is what fold_xor makes of a chunk.
type Fold struct {
	Times uint64  // sum of the timestamps in ms, modulo 2^64
	Sum   float64 // of the values, added in their order
}

// Status is what a decoding kernel reports of a chunk.
type Status uint32

const (
	truncated Status = 1
	badNumber Status = 2
	backwards Status = 3
	stale     Status = 256
)

// Outside is the status of a chunk with samples outside its stated time range.
const Outside Status = 4

var statusErrors = map[Status]error{
	truncated: errors.New("its bit stream ends before its last sample"),
	badNumber: errors.New("its bit stream has a time of more than 64 bits"),
	backwards: errors.New("its timestamps do not increase"),
	Outside:   errors.New("its samples lie outside its stated time range"),
}

// Err says why the chunk is corrupt, if it is.
func (s Status) Err() error {
	code := s &^ stale
	if code == 0 {
		return nil
	}
	if err, ok := statusErrors[code]; ok {
		return err
	}
	return fmt.Errorf("the GPU reports status %d of it", s)
}

// Stale reports whether a stale marker is among the values.
func (s Status) Stale() bool { return s&stale != 0 }
