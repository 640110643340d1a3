package selection

import (
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// Bounds is the time range that a selection is for, in ms, both included: that of
// the hints, which may be nil, or else the querier's.
func Bounds(hints *storage.SelectHints, mint, maxt int64) (int64, int64) {
	if hints == nil || hints.Start == 0 && hints.End == 0 {
		return mint, maxt
	}
	return hints.Start, hints.End
}

// LazySeriesSet returns the series set from mint to maxt (ms, both included) of
// the selection that get returns. It is called at the set's first Next.
func LazySeriesSet(mint, maxt int64, get func() (*Selection, annotations.Annotations, error)) storage.SeriesSet {
	return &lazySet[storage.Series]{open: func() openSet[storage.Series] {
		sel, ws, err := get()
		if err != nil {
			return failedSet[storage.Series]{err, ws}
		}
		return sel.SeriesSet(mint, maxt, ws)
	}}
}

// openSet is a storage.SeriesSet or a storage.ChunkSeriesSet.
type openSet[S any] interface {
	Next() bool
	At() S
	Err() error
	Warnings() annotations.Annotations
}

// lazySet opens a set at the first Next.
type lazySet[S any] struct {
	open func() openSet[S]
	set  openSet[S]
}

func (l *lazySet[S]) Next() bool {
	if l.set == nil {
		l.set = l.open()
	}
	return l.set.Next()
}

func (l *lazySet[S]) At() S { return l.set.At() }

func (l *lazySet[S]) Err() error {
	if l.set == nil {
		return nil
	}
	return l.set.Err()
}

func (l *lazySet[S]) Warnings() annotations.Annotations {
	if l.set == nil {
		return nil
	}
	return l.set.Warnings()
}

// failedSet is a set that could not be opened.
type failedSet[S any] struct {
	err error
	ws  annotations.Annotations
}

func (failedSet[S]) Next() bool                          { return false }
func (failedSet[S]) At() (s S)                           { return s }
func (f failedSet[S]) Err() error                        { return f.err }
func (f failedSet[S]) Warnings() annotations.Annotations { return f.ws }
