package selection

import "sync"

// Notes are what those who evaluate a selection found out about its series and
// chunks as a whole and want to find again. They go with the selection. A selection
// that Slice or CutAfter left whole shares those of the one it was made of.
type Notes struct {
	mu    sync.Mutex
	notes map[any]any
	order []any // keys, oldest first
}

// maxNotes is the most notes kept of one selection: more than a dashboard has
// panels over it.
const maxNotes = 32

// Sized is a note that takes more memory than a few words. How much is asked for
// often, from any goroutine, so it is not to be worked out each time.
type Sized interface {
	SizeBytes() int64
}

// noteBytes is counted for every note: its key, what stands for it, and its places in
// the map and in the order.
const noteBytes = 192

// SizeBytes is the memory that the notes take, in bytes, about.
func (n *Notes) SizeBytes() (size int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, note := range n.notes {
		size += noteBytes
		if s, ok := note.(Sized); ok {
			size += s.SizeBytes()
		}
	}
	return size
}

// Notes returns the notes of s.
func (s *Selection) Notes() *Notes { return s.notes }

// Note returns the note of that key, which find makes where there is none. Two who
// ask at once may both make it; they get the same one.
func Note[T any](n *Notes, key any, find func() T) T {
	if found, ok := n.get(key); ok {
		return found.(T)
	}
	return n.put(key, find()).(T)
}

func (n *Notes) get(key any) (any, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found, ok := n.notes[key]
	return found, ok
}

// put keeps a note unless there is one, and returns the one that is kept.
func (n *Notes) put(key, note any) any {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found, ok := n.notes[key]; ok {
		return found
	}
	if n.notes == nil {
		n.notes = map[any]any{}
	}
	if len(n.order) == maxNotes {
		delete(n.notes, n.order[0])
		n.order = n.order[1:]
	}
	n.notes[key] = note
	n.order = append(n.order, key)
	return note
}
