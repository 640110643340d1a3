package window

// Sees is what a function sees of the samples in its window: with those alone it has the same value.
// A remote reader that evaluates the function needs no others.
type Sees int

// What functions see. From LastTwo on it is several samples, from Counter on values decide about them.
const (
	Everything Sees = iota
	Latest          // the last sample
	Earliest        // the first one
	Largest         // the first of the largest ones
	Smallest        // the first of the smallest ones
	Total           // the sum of all
	Average         // their mean
	LastTwo         // the last two
	FirstLast       // the first and the last one, and, seldom, how many there are
	Counter         // the same, and where values fall
	Falling         // where values fall
	Changing        // where values change
)

// ByValue reports whether values decide what is seen.
func (s Sees) ByValue() bool { return s.Extreme() || s.Added() || s >= Counter }

// Added reports whether what is seen is made of all samples.
func (s Sees) Added() bool { return s == Total || s == Average }

// Extreme reports whether one value is seen, which others decide about.
func (s Sees) Extreme() bool { return s == Largest || s == Smallest }

// PerWindow is how many samples of a window are seen, mostly.
func (s Sees) PerWindow() int64 {
	if s >= LastTwo {
		return 2
	}
	return 1
}

// Alone reports whether samples that a reader has besides those it was sent would change the value.
func (s Sees) Alone() bool { return s.Added() || s >= FirstLast }
