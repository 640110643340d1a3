package selection

import (
	"sync"
	"sync/atomic"
)

// Notes are what those who evaluate a selection found out about its series and
// chunks as a whole and want to find again. They go with the selection. A selection
// that Slice or Cut left whole shares those of the one it was made of, and one
// that has the very same series, if with other chunks, shares those on the series.
type Notes struct {
	series  *Notes // those on the series alone; nil in those themselves
	mu      sync.Mutex
	notes   map[any]note
	order   []any         // keys, oldest first
	account *atomic.Int64 // see CountIn
	size    atomic.Int64  // bytes
}

type note struct {
	what any
	size int64 // bytes
}

// maxNotes is the most notes kept of one selection: more than a dashboard has
// panels over it.
const maxNotes = 32

// Sized is a note that takes more memory than a few words.
type Sized interface {
	// SizeBytes is how much that is, in bytes, about. It is asked for once.
	SizeBytes() int64
}

// noteBytes is counted for every note: its key, what stands for it, and its places in
// the map and in the order.
const noteBytes = 192

// Notes returns the notes of s.
func (s *Selection) Notes() *Notes { return s.notes }

// Note returns the note of that key, which find makes where there is none. Two who
// ask at once may both make it; they get the same one.
func Note[T any](n *Notes, key any, find func() T) T {
	what, _ := noteOrError(n, key, func() (T, error) { return find(), nil })
	return what
}

func noteOrError[T any](n *Notes, key any, find func() (T, error)) (T, error) {
	if found, ok := n.get(key); ok {
		return found.(T), nil
	}
	what, err := find()
	if err != nil {
		return what, err
	}
	return n.put(key, what).(T), nil
}

// SeriesNote is Note for what depends on nothing but the labels of the series and their
// order.
func SeriesNote[T any](n *Notes, key any, find func() T) T { return Note(n.series, key, find) }

// SeriesNoteOrError is SeriesNote where find may fail, which leaves no note.
func SeriesNoteOrError[T any](n *Notes, key any, find func() (T, error)) (T, error) {
	return noteOrError(n.series, key, find)
}

// newNotes returns notes, with those on the series if they are known.
func newNotes(series *Notes) *Notes {
	if series == nil {
		series = &Notes{}
	}
	return &Notes{series: series}
}

// SizeBytes is the memory that the notes take, in bytes, about.
func (n *Notes) SizeBytes() int64 {
	size := n.size.Load()
	if n.series != nil {
		size += n.series.SizeBytes()
	}
	return size
}

// CountIn adds the memory that the notes take to an account, and from now on what it
// grows and shrinks by. It takes it off the former account. Either may be nil. It is for
// the keeper of the selection (a cache).
func (n *Notes) CountIn(account *atomic.Int64) {
	if n.series != nil {
		n.series.CountIn(account)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	size := n.size.Load()
	n.grow(-size)
	n.account = account
	n.grow(size)
}

// grow counts bytes. n.mu must be held.
func (n *Notes) grow(by int64) {
	n.size.Add(by)
	if n.account != nil {
		n.account.Add(by)
	}
}

func (n *Notes) get(key any) (any, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found, ok := n.notes[key]
	return found.what, ok
}

// put keeps a note unless there is one, and returns the one that is kept.
func (n *Notes) put(key, what any) any {
	size := int64(noteBytes)
	if s, ok := what.(Sized); ok {
		size += s.SizeBytes()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if found, ok := n.notes[key]; ok {
		return found.what
	}
	if n.notes == nil {
		n.notes = map[any]note{}
	}
	if len(n.order) == maxNotes {
		n.grow(-n.notes[n.order[0]].size)
		delete(n.notes, n.order[0])
		n.order = n.order[1:]
	}
	n.notes[key] = note{what, size}
	n.grow(size)
	n.order = append(n.order, key)
	return what
}
