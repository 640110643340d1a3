// Package rouse wakes all cores at once.
//
// The Go runtime wakes idle cores one after the other: it wakes one core for work that is ready, and
// that core wakes the next once it runs. Each takes 20 to 150 us, so the last of sixteen cores begins
// a millisecond after the first. When the network poller reports many goroutines at once, however,
// the runtime wakes a core for each of them.
//
// So one goroutine a core waits for a bell, an eventfd of which each has a descriptor of its own.
// Cores rings the bell: every core wakes, and runs the caller's goroutines once its own has gone
// back to wait.
//
// Start with Start and Cores.
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
