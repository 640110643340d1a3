package kernels

// SeriesChunk addresses a chunk of a series, for decode_series and decode_mixed.
type SeriesChunk struct {
	ChunkRef       // Samples with XOR2 added where it is such a chunk
	From, To int64 // its stated time range in ms, both ends included
}

// XOR2 is what decode_mixed knows an XOR2 chunk by.
const XOR2 = 1 << 16

// Entry is a SeriesChunk in half the bytes, which nearly all fit into, for the table
// that is copied for every chunk; or it says where the SeriesChunk is.
type Entry struct {
	where uint64 // from the lowest bit on: 35 bits of Off/8, 13 of Len, 16 of Samples; or the number of the SeriesChunk
	when  uint64 // 35 bits of From, in ms after a time that all entries have in common, 27 of To-From, entryXOR2, entryWide
}

const (
	entryXOR2 = 1 << 62
	entryWide = 1 << 63
	// EntrySpan is the longest time range of a chunk that fits into an entry, in ms.
	EntrySpan = 1<<27 - 1
	// EntryReach is the number of bytes in which an entry can say where a chunk is.
	EntryReach = 1 << 38
)

// EntryFits reports whether a chunk of so many bytes and that time range fits into an
// Entry, wherever in EntryReach it is.
func EntryFits(length uint32, from, to, since int64) bool {
	return length < 1<<13 && from >= since && uint64(from-since) < 1<<35 && uint64(to-from) <= EntrySpan
}

// Entry returns the entry of a chunk that fits.
func (c SeriesChunk) Entry(since int64) Entry {
	return Entry{
		where: c.Off/8 | uint64(c.Len)<<35 | uint64(c.Samples)<<48,
		when:  uint64(c.From-since) | uint64(c.To-c.From)<<35 | uint64(c.Samples/XOR2)<<62,
	}
}

// WideEntry returns the entry of a chunk that has number n among those that do not fit.
func WideEntry(n uint32) Entry { return Entry{uint64(n), entryWide} }

// Decoded is what decode_series reports of a chunk.
type Decoded struct {
	End  int64  // time of its last sample in ms
	Kept uint32 // samples in its column
	_    uint32 // whether one of them is less than the one before
}

// SeriesCounts are what the sample limit needs of a series, as the window kernels
// count them.
type SeriesCounts struct {
	Points uint32 // steps with a value
	Most   uint32 // samples in its largest window
	Last   uint32 // samples in the window of the last step
}

// State is the state of an aggregation for a group at a step. All zeros is that
// of no values.
type State struct {
	Value, Lost float64
	N, Running  uint32
}

// Absent is the bits of a value that is not there: Prometheus's stale marker,
// which no function returns.
const Absent = 0x7ff0000000000002

// NoFault is the fault word of decode_series as long as no chunk is corrupt, and
// MixedZeros that of window_order where the answer depends on how zeros of either
// sign are sorted.
const (
	NoFault    = 1<<64 - 1
	MixedZeros = NoFault - 1
)

// Ends is a function of window_ends.
type Ends uint32

// The functions of window_ends.
const (
	EndsInstant Ends = iota
	EndsNewest
	EndsOldest
	EndsNewestTime
	EndsOldestTime
	EndsCount
	EndsPresence
	EndsInstantTime
)

// Pairs is a function of window_pairs.
type Pairs uint32

// The functions of window_pairs.
const (
	PairsLastRate Pairs = iota
	PairsLastDifference
	PairsChanges
	PairsResets
)

// Folds is a function of window_fold.
type Folds uint32

// The functions of window_fold. Predictions and smoothing have parameters.
const (
	FoldsVariance Folds = iota
	FoldsDeviation
	FoldsSlope
	FoldsPrediction
	FoldsSmoothing
	FoldsTimeOfMin
	FoldsTimeOfMax
)

// OrderMost is the largest number of samples in a window that window_order sorts.
const OrderMost = 64

// Operator is an operator of group_fold, or of window_all and window_panes, which
// have the first four.
type Operator uint32

// The operators.
const (
	Sum Operator = iota
	Avg
	Min
	Max
	Count
	Group
	StdDev
	StdVar
)

// Map is a function or an operator of map_values. Round has the inverse of what it
// rounds to, Clamp both ends, Scale what it multiplies with and divides by.
type Map uint32

// The maps. Those from Equal on compare.
const (
	Negate Map = iota
	Abs
	Ceil
	Floor
	Sign
	Root
	Round
	Clamp
	Add
	Subtract
	SubtractFrom
	Multiply
	Divide
	DivideInto
	Scale
	Equal
	Unequal
	Greater
	Less
	AtLeast
	AtMost
)

// The bytes of what window_panes keeps of a pane, twice.
const (
	ExtremeBytes = 12 // for Min and Max
	TotalBytes   = 24 // for Sum and Avg
)
