package tile

// Moment is what answers at one moment of what is kept.
type Moment struct {
	Now     int64 // ms
	Settled Span  // the stretch of time whose tiles are kept
	Oldest  int64 // the earliest time of fetching (ms) of what still answers
	Recent  int64 // the same of what was not old enough to be settled then
}
