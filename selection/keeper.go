package selection

import "github.com/prometheus/prometheus/model/labels"

// Keeper is what a Querier may also be: one that keeps selections for later queries.
type Keeper interface {
	// Kept returns what is kept of a selector at this moment, of whatever times: nothing,
	// or a selection of each source that keeps some. It fetches nothing and is no use of
	// what is kept. The selections must not be read after the querier was closed.
	Kept(matchers ...*labels.Matcher) []*Selection
}
