// Package answer reads the answers that stores give to remote read into selections.
//
// In come the bytes of an answer, frames of chunks or compressed samples, and what was
// asked for; out comes a selection for each question. Chunk bytes are copied once, from the frame to the
// slab; samples are encoded on arrival. Series that are expected are recognised by their bytes and
// share the labels that are there already. Every label, series and chunk header that came is
// checked, and an answer that has anything wrong brings nothing.
//
// Start with Reader; stream.go goes through frames, samples.go through samples.
package answer

import (
	"context"
	"fmt"
	"io"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/remoteread/external"
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
	View  *external.View    // or nil
	// Exact says that chunks could have been had, so that samples must tell as much.
	Exact bool
	// Expected is what the fetch is expected to bring.
	Expected selection.Expectation
	// Count is told how many bytes and series have come so far. It ends reading with an error.
	Count func(bytes, series int64) error

	Sel *selection.Selection // nil until all of it has come, and if it has not

	queries int64 // of the request, without that for the witness
}

// Read reads an answer, streamed or of samples, to a request with the queries of all parts in order,
// and behind them one for the witness, if the views have one. It reports whether the witness testified.
// Where there is an error, it is that of the first part without a selection, and of the rest.
func (a *Reader) Read(r io.Reader, streamed bool, parts []*Part) (testified bool, err error) {
	for _, p := range parts {
		p.queries = p.View.NumQueries()
	}
	if streamed {
		return a.stream(r, parts)
	}
	return a.samples(r, parts)
}

// TooLargeError is for an answer of samples over the limit.
type TooLargeError struct {
	Size string // bytes, or "more than" so many
}

func (e *TooLargeError) Error() string { return fmt.Sprintf("an answer of %s bytes", e.Size) }
