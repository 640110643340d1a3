package frame

import "github.com/promwarp/promwarp/cpuexec/exact"

// Group are windows whose samples are added up side by side.
type Group struct {
	Steps, Lo, Hi [exact.Abreast]int32
	N             int // of the windows; others are like the last one
	Common        int // samples that each has at least; 0 where side by side is not worth it
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
		g.Steps[g.N], g.Lo[g.N], g.Hi[g.N] = k, lo, hi
		if g.N++; g.N == exact.Abreast {
			g.finish(do)
		}
	}
	g.finish(do)
}

// finish has done what is done with the windows of the group, and empties it.
func (g *Group) finish(do func(g *Group)) {
	if g.N == 0 {
		return
	}
	g.Common = 0
	if last := g.N - 1; g.N > 1 && exact.CanAbreast() {
		g.Common = int(g.Hi[0] - g.Lo[0])
		for i, lo := range g.Lo[:g.N] {
			g.Common = min(g.Common, int(g.Hi[i]-lo))
		}
		for i := g.N; i < exact.Abreast; i++ {
			g.Lo[i] = g.Lo[last]
		}
	}
	do(g)
	g.N = 0
}
