package selection

// Provenance says of which times a selection has what its keeper (a cache) keeps
// of a selector, so that whoever computed something of those samples before may
// know that they are the same.
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

// From returns s with the given provenance. It is for the keeper of selections.
func (s *Selection) From(p *Provenance) *Selection {
	if s.provenance == p {
		return s
	}
	out := *s
	out.provenance = p
	return &out
}

// Provenance says what is known of where the samples came from, or nil. Selections
// that are made of s without leaving anything out share it; others have none.
func (s *Selection) Provenance() *Provenance { return s.provenance }
