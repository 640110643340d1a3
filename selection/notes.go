package selection

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Notes are what those who evaluate a selection found out about its series and
// chunks as a whole and want to find again. They go with the selection. A selection
// that Slice or Cut left whole shares those of the one it was made of, and one
// that has the very same series, if with other chunks, shares those on the series.
type Notes struct {
	// Series are those for what depends on nothing but the labels of the series and their order; nil in
	// those themselves.
	Series  *Notes
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

// Note returns the note of that key, which find makes where there is none. Two who
// ask at once may both make it; they get the same one.
func Note[T any](n *Notes, key any, find func() T) T {
	what, _ := NoteOrError(n, key, func() (T, error) { return find(), nil })
	return what
}

// NoteOrError is Note where find may fail, which leaves no note.
func NoteOrError[T any](n *Notes, key any, find func() (T, error)) (T, error) {
	n.mu.Lock()
	found, ok := n.notes[key]
	n.mu.Unlock()
	if ok {
		return found.what.(T), nil
	}
	what, err := find()
	if err != nil {
		return what, err
	}
	size := int64(noteBytes)
	if s, ok := any(what).(Sized); ok {
		size += s.SizeBytes()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if found, ok := n.notes[key]; ok {
		return found.what.(T), nil
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
	return what, nil
}

// SizeBytes is the memory that the notes take, in bytes, about.
func (n *Notes) SizeBytes() int64 {
	size := n.size.Load()
	if n.Series != nil {
		size += n.Series.SizeBytes()
	}
	return size
}

// CountIn adds the memory that the notes take to an account, and from now on what it
// grows and shrinks by. It takes it off the former account. Either may be nil. It is for
// the keeper of the selection (a cache).
func (n *Notes) CountIn(account *atomic.Int64) {
	if n.Series != nil {
		n.Series.CountIn(account)
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

// Memo is a place where an executor may store what it computed of a series
// from the series' chunks, decoded columns say. It follows the series from a
// kept selection to those made of it by Slice, Cut, Compact and Join. What
// is in it may have been computed from other chunks than a selection holds, so
// a reader of it must check which.
//
// It holds values of one type; see atomic.Value.
type Memo struct{ atomic.Value }

// WithMemos returns s with a memo for each series that has none yet, as what is
// kept of times before until (ms). It is for the keeper of selections (a cache).
func (s *Selection) WithMemos(until int64) *Selection {
	s = s.flat() // it will be joined again and again
	if s.KeptUntil == until && len(s.memos) == len(s.series) && !slices.Contains(s.memos, nil) {
		return s
	}
	out := *s
	out.KeptUntil = until
	out.memos = make([]*Memo, len(s.series))
	copy(out.memos, s.memos)
	for i, m := range out.memos {
		if m == nil {
			out.memos[i] = &Memo{}
		}
	}
	return out.measure()
}

// Memo returns the memo of series i, or nil if the selection is not kept.
func (s *Selection) Memo(i int) *Memo {
	if s.memos == nil {
		return nil
	}
	return s.memos[i]
}

// keepMemo appends the memo m to those of the series of s, which has one series
// more than memos. Selections without memos keep none.
func (s *Selection) keepMemo(m *Memo) {
	if s.memos == nil {
		if m == nil {
			return
		}
		s.memos = make([]*Memo, len(s.series)-1, cap(s.series))
	}
	s.memos = append(s.memos, m)
}

// Origin is the identity of a chunk, whatever selection it is looked at in: two
// chunks with the same origin are the same bytes.
type Origin uint64

// Origin returns the identity of chunk c of s.
func (s *Selection) Origin(c Chunk) Origin { return Origin(s.slabs.Position(c)) }

// Provenance says of which times a selection has what its keeper (a cache) keeps
// of a selector, so that code that computed something of those samples before
// knows that they are the same.
type Provenance struct {
	// Selector tells selectors apart: equal ones match alike.
	Selector string
	// Settled are stretches of time in order, none overlapping another.
	Settled []Settled
}

// Settled is a stretch of time from From to To (ms, To excluded) of a selector.
// All selections that say of a stretch that it is of one revision have the very same
// samples there, and of series that others lack they have none there. No revision
// is used again.
type Settled struct {
	From, To int64
	Revision uint64
}
