// Package rouse wakes all cores at once.
//
// Where cores are idle the runtime wakes one for work that is ready, and that one wakes the next
// once it runs. An idle core takes 20 to 150 us to wake, so of sixteen the last begins a
// millisecond after the first: as long as many a query takes on all of them. But where the network
// has news for many goroutines at once, the runtime wakes a core for each of them. So a goroutine
// a core waits for a bell: an eventfd that each knows by a descriptor of its own. It has nothing to
// do when the bell rings, and its core looks for other work, of which there is some by then.
package rouse

import "sync/atomic"

// hung is the bell that Cores rings, or nil.
var hung atomic.Pointer[bell]

// Start has Cores wake so many cores, until stop is called. Where that is not possible, err says
// why, and work begins as the runtime has it begin.
func Start(cores int) (stop func(), err error) {
	if cores < fewest {
		return func() {}, nil
	}
	b, err := hang(cores - 1)
	if err != nil {
		return func() {}, err
	}
	hung.Store(b)
	return func() {
		hung.CompareAndSwap(b, nil)
		b.end()
	}, nil
}

// Cores wakes the cores, for so many goroutines that are started right after. Before Start, and for
// less than one in four cores, it does nothing: few are as soon woken in turn.
func Cores(goroutines int) {
	if b := hung.Load(); b != nil && 4*goroutines > b.sleepers {
		b.ring()
	}
}

// fewest is from how many cores on they are woken at once.
const fewest = 4
