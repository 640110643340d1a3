package brokenstore

import "slices"

// Kind is one way of being broken.
type Kind struct {
	Name string // in words; unique
	// Fails says whether a fetch must fail. Where it does not, what is odd changes no
	// answer, or is what Prometheus accepts.
	Fails bool
	// Late says that a fetch need not notice, but whoever decodes the samples must.
	Late bool
	// Endless says that the answer does not end by itself: a limit or a deadline ends it.
	Endless bool
	// Says is part of the error; empty for an endless one that a deadline ends.
	Says string

	anyRequest bool // whether what is no remote-read request is answered, too
	answer     func(*exchange)
}

// Kinds returns all kinds.
func Kinds() []Kind { return slices.Concat(http1, streams, seriesKinds, chunkKinds, sampleKinds) }

// altered is a kind that alters a right answer.
func altered(name, says string, alter func(*exchange)) Kind {
	return Kind{Name: name, Fails: says != "", Says: says, answer: func(x *exchange) {
		alter(x)
		x.stream(frames(x.series...))
	}}
}

// late is an altered kind that is noticed when samples are decoded.
func late(name, says string, alter func(*exchange)) Kind {
	k := altered(name, says, alter)
	k.Late = true
	return k
}
