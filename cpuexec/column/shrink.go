package column

import (
	"cmp"
	"slices"
)

// Shrink drops series until the set is smaller by so many bytes, the least recently used
// first, and returns by how many bytes it is. Of series last used at one tick the newest stay.
func (h *Set) Shrink(bytes int64) (freed int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.bytes
	type use struct {
		account int
		at      int64 // tick
	}
	order := make([]use, len(h.ring))
	for i := range h.ring {
		order[i].account = i
		if s := h.ring[i].series.Value(); s != nil {
			order[i].at = s.used.Load()
		}
	}
	slices.SortFunc(order, func(a, b use) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.account, b.account)) })
	gone := make([]int, 0, len(order))
	var size int64
	for _, u := range order {
		if size >= bytes {
			break
		}
		size += h.ring[u.account].size
		if t := h.ring[u.account].times; t.refs == 1 {
			size += t.size()
		}
		gone = append(gone, u.account)
	}
	slices.Sort(gone)
	for _, i := range slices.Backward(gone) { // drop puts the last account in place of account i
		if s, c := h.ring[i].series.Value(), h.ring[i].cols.Value(); s != nil && c != nil {
			s.drop(c)
		}
		h.drop(i)
	}
	return before - h.bytes
}
