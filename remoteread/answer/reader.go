// Package answer reads the answers that stores give to remote read into selections, by hand and where
// they lie: frames, fields of protobuf messages, labels.
//
// In come the bytes of an answer, frames of chunks or compressed samples, and what was
// asked for; out comes a selection for each question. Chunk bytes are copied once, from the frame to the
// slab; samples are encoded on arrival. Series that are expected are recognised by their bytes and
// share the labels that are there already. Every label, series and chunk header that came is
// checked, and an answer that has anything wrong brings nothing. What is wrong is an error of a type
// by which a client decides what to do.
//
// A View undoes what a store does to the labels of series that it sends: it says how to ask for series,
// and takes the labels off that the store has added. No series is taken for another: where it is not
// certain that a label was added, there is an error, by which a client asks again.
//
// Start with Reader; stream.go goes through frames, samples.go through samples.
package answer

import (
	"context"
	"fmt"
	"io"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/selection"
)

// Reader reads answers of one store. It is safe for concurrent use.
type Reader struct {
	MaxFrame  int64 // bytes of the largest frame
	MaxAnswer int64 // bytes of the largest answer of samples, decompressed
	MaxBytes  int64 // bytes of chunks that one answer may bring
}

// Part is one of the questions of a request, and what the answer has for it.
type Part struct {
	Ctx   context.Context   // of who asks; once it has ended the others go on without
	Asked []*labels.Matcher // what the series must match
	View  *View             // or nil
	// Exact says that chunks could have been had, so that samples must tell as much.
	Exact bool
	// Expected is what the fetch is expected to bring.
	Expected selection.Expectation
	// Aggregates are what of chunks of a lower resolution is read; none where only raw samples are.
	Aggregates []leafpb.Aggr
	// Count is told how many bytes and series have come so far. It ends reading with an error.
	Count func(bytes, series int64) error

	Sel *selection.Selection // nil until all of it has come, and if it has not
}

// Read reads an answer, streamed or of samples, to a request with the queries of all parts in order,
// and behind them one for the witness, if the views have one. It reports whether the witness testified.
// Where there is an error, it is that of the first part without a selection, and of the rest.
func (a *Reader) Read(r io.Reader, streamed bool, parts []*Part) (testified bool, err error) {
	if streamed {
		return a.stream(r, parts)
	}
	return a.samples(r, parts)
}

// TooLargeError is for an answer of samples over the limit.
type TooLargeError struct {
	Size string // bytes, or "more than" a number of them
}

func (e *TooLargeError) Error() string { return fmt.Sprintf("an answer of %s bytes", e.Size) }

// CutOffError is for a body that ended before its end.
type CutOffError struct{ Err error }

func (e *CutOffError) Error() string { return "cut off: " + e.Err.Error() }
func (e *CutOffError) Unwrap() error { return e.Err }

// CorruptError is for bytes that are not what was sent.
type CorruptError struct{ Text string }

func (e *CorruptError) Error() string { return e.Text }

// FrameTooLargeError is for a frame over the limit.
type FrameTooLargeError struct{ Size uint64 }

func (e *FrameTooLargeError) Error() string { return fmt.Sprintf("frame of %d bytes", e.Size) }

// StoreError is what a store wrote into its stream when it failed on the way.
type StoreError struct{ Text []byte }

func (e *StoreError) Error() string { return string(e.Text) }
