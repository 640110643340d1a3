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
	"encoding/binary"
	"fmt"
	"io"
	"iter"

	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/protobuf/encoding/protowire"

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

// Field is a field of a message.
type Field struct {
	Num   protowire.Number
	Type  protowire.Type
	Bytes []byte // of a field of bytes
	Value uint64 // of a varint or a fixed 64 bits
}

// Fields goes through the fields of b, a message in where. It ends with what is wrong. A field is
// there until the next is asked for: a copy of it would wait until all of it has been written.
func Fields(b []byte, where string) iter.Seq2[*Field, error] {
	return func(yield func(*Field, error) bool) {
		var f Field
		for len(b) > 0 {
			n, err := f.read(b, where)
			if !yield(&f, err) || err != nil {
				return
			}
			b = b[n:]
		}
	}
}

// typed goes through the fields that there are types for, by number, and leaves others out. One of
// another type is wrong.
func typed(b []byte, where string, types ...protowire.Type) iter.Seq2[*Field, error] {
	return func(yield func(*Field, error) bool) {
		for f, err := range Fields(b, where) {
			switch {
			case err != nil:
			case int(f.Num) > len(types):
				continue
			case f.Type != types[f.Num-1]:
				err = fmt.Errorf("the answer is not valid protobuf: field %d of %s has wire type %d", f.Num, where, f.Type)
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// read reads the field that b starts with, a message in where, n bytes long.
func (f *Field) read(b []byte, where string) (n int, err error) {
	*f = Field{}
	// Most have a number of one byte, and a varint or a length of few bytes.
	if b[0] >= 1<<3 && b[0] < 0x80 {
		f.Num, f.Type = protowire.Number(b[0]>>3), protowire.Type(b[0]&7)
		v, size := binary.Uvarint(b[1:])
		switch {
		case size <= 0:
		case f.Type == protowire.VarintType:
			f.Value = v
			return 1 + size, nil
		case f.Type == protowire.BytesType && v <= uint64(len(b)-1-size):
			n = 1 + size + int(v)
			f.Bytes = b[1+size : n]
			return n, nil
		}
	}
	var tag int
	if f.Num, f.Type, tag = protowire.ConsumeTag(b); tag >= 0 {
		switch b := b[tag:]; f.Type {
		case protowire.BytesType:
			f.Bytes, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			f.Value, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.Value, n = protowire.ConsumeFixed64(b)
		default:
			n = protowire.ConsumeFieldValue(f.Num, f.Type, b)
		}
	}
	if failed := min(tag, n); failed < 0 {
		return 0, fmt.Errorf("the answer is not valid protobuf: in %s: %w", where, protowire.ParseError(failed))
	}
	return tag + n, nil
}
