package wire

import "fmt"

// MaxLine is the most bytes of a store's own text that a message quotes.
const MaxLine = 256

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
