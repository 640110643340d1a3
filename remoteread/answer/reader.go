// Package answer reads the answers that stores give to remote read into selections.
//
// In come the bytes of an answer, frames of chunks (Stream) or compressed samples (Samples), and
// what was asked for; out comes a selection. Chunk bytes are copied once, from the frame to the
// slab; samples are encoded on arrival. Series that are expected are recognised by their bytes and
// share the labels that are there already. Every label, series and chunk header that came is
// checked, and an answer that has anything wrong brings nothing.
//
// Start with Reader; walk.go goes through frames, sampleswalk.go through samples.
package answer

import (
	"fmt"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/remoteread/external"
)

// Reader reads answers of one store. It is safe for concurrent use.
type Reader struct {
	MaxFrame  int64 // bytes of the largest frame
	MaxAnswer int64 // bytes of the largest answer of samples, decompressed
	MaxBytes  int64 // bytes of chunks that one answer may bring
	orders    orders
}

// Question is what an answer is to.
type Question struct {
	Asked []*labels.Matcher // what the series must match
	View  *external.View    // or nil
	Part  int               // number of the part of a fetch that it is for
	// Exact says that chunks could have been had, so that samples must tell as much.
	Exact bool
	// Count is told how many bytes and series have come so far. It ends reading with an error.
	Count func(bytes, series int64) error
}

// selector returns what checks the series of an answer.
func (q *Question) selector() selector { return newSelector(q.Asked, q.View == nil) }

// TooLargeError is for an answer of samples over the limit.
type TooLargeError struct {
	Size string // bytes, or "more than" so many
}

func (e *TooLargeError) Error() string { return fmt.Sprintf("an answer of %s bytes", e.Size) }
