package frame

import "github.com/promwarp/promwarp/cpuexec/exact"

// Group are windows whose samples are added up side by side.
type Group struct {
	Steps, Lo, Hi [exact.Abreast]int32
	N             int // of the windows; others are like the last one
	Common        int // samples that each has at least; 0 where side by side is not worth it
	// Known is what Seconds returns, where the windows' frames know it already.
	Known [exact.Abreast]*exact.Seconds
}

// Groups calls do with all windows that have so many samples or more, of the given steps, or of all
// where these are nil, until it reports false.
func (b *Bounds) Groups(least int32, steps []int32, do func(g *Group)) {
	var g Group
	n := len(steps)
	if steps == nil {
		n = len(b.Lo)
	}
	for i := range n {
		k := int32(i)
		if steps != nil {
			k = steps[i]
		}
		lo, hi := b.Lo[k], b.Hi[k]
		if hi-lo < least {
			continue
		}
		if b.GiveUp(int(k)) {
			return
		}
		if g.Add(k, lo, hi) {
			g.Finish(do)
		}
	}
	g.Finish(do)
}

// Add adds a window to the group and reports whether that is full.
func (g *Group) Add(step, lo, hi int32) (full bool) {
	g.Steps[g.N], g.Lo[g.N], g.Hi[g.N] = step, lo, hi
	g.N++
	return g.N == exact.Abreast
}

// Finish calls do with the group, if it has a window, and empties it.
func (g *Group) Finish(do func(g *Group)) {
	if g.N == 0 {
		return
	}
	for i := g.N; i < exact.Abreast; i++ {
		g.Steps[i], g.Lo[i], g.Hi[i] = g.Steps[g.N-1], g.Lo[g.N-1], g.Hi[g.N-1]
	}
	g.Common = 0
	if g.N > 1 && exact.CanAbreast() {
		g.Common = int(g.Hi[0] - g.Lo[0])
		for i, lo := range g.Lo[:g.N] {
			g.Common = min(g.Common, int(g.Hi[i]-lo))
		}
	}
	do(g)
	g.N = 0
}
