package selection

import "sync/atomic"

// Memo is a place where whoever evaluates a series may keep what it computed
// from the series' chunks, decoded columns say. It follows the series from a
// kept selection to those made of it by Slice, Cut, Compact and Join. What
// is in it may have been computed from other chunks than a selection holds, so
// whoever reads it must check which.
//
// It holds values of one type; see atomic.Value.
type Memo struct{ atomic.Value }

// WithMemos returns s with a memo for each series that has none yet, as what is
// kept of times before until (ms). It is for the keeper of selections (a cache).
func (s *Selection) WithMemos(until int64) *Selection {
	s = s.flat() // it will be joined again and again
	missing := len(s.series)
	for _, m := range s.memos {
		if m != nil {
			missing--
		}
	}
	if missing == 0 && s.kept == until {
		return s
	}
	out := *s
	out.kept = until
	out.memos = make([]*Memo, len(s.series))
	copy(out.memos, s.memos)
	fresh := make([]Memo, missing)
	for i, m := range out.memos {
		if m == nil {
			out.memos[i], fresh = &fresh[0], fresh[1:]
		}
	}
	return out.finish()
}

// KeptUntil is the time in ms before which chunks are kept, so that the next
// selection made of them has the very same ones.
func (s *Selection) KeptUntil() int64 { return s.kept }

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

// Origin returns the identity of chunk c of s.
func (s *Selection) Origin(c Chunk) Origin { return Origin{s.slabs[c.Slab], c.Off} }

// Origin is the identity of a chunk, whatever selection it is looked at in: two
// chunks with the same origin are the same bytes.
type Origin struct {
	slab *Slab
	off  uint32
}
