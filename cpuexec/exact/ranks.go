package exact

import (
	"math"
	"math/bits"
	"slices"
)

// Ranks knows which of a series' values are in a window, by their ranks among
// all of them: a bitmap of the ranks, and how many are in each block of it. To
// enter and to leave is to flip a bit; the k-th smallest value of the window is
// found by counting blocks, then words, then bits.
type Ranks struct {
	sorted []float64 // values by rank, NaN first
	rank   []int32   // of each sample
	Odd    []int32   // samples that are NaN or infinite
	Tiny   bool      // some value is so small that halving it may round
	words  []uint64
	blocks []int32
	shift  int // a block is 1<<shift words
	pairs  [2][]ranked
}

// Set sorts the samples from to to of vs, of which none has entered then. It reports false
// where there are zeros of both signs: their order among themselves is that of Prometheus's
// way to sort.
func (o *Ranks) Set(vs []float64, from, to int) bool {
	n := to - from
	for i := range o.pairs {
		o.pairs[i] = slices.Grow(o.pairs[i][:0], n)[:n]
	}
	o.Odd, o.Tiny = o.Odd[:0], false
	var zeros [2]bool
	in := o.pairs[0]
	for k := from; k < to; k++ {
		v := vs[k]
		b := math.Float64bits(v)
		key := b ^ (uint64(int64(b)>>63) | 1<<63)
		switch a := b &^ (1 << 63); {
		case a == 0:
			zeros[b>>63] = true
		case a >= 0x7ff<<52:
			o.Odd = append(o.Odd, int32(k))
			if v != v {
				key = 0
			}
		case a < 1<<54:
			o.Tiny = true
		}
		in[k-from] = ranked{key, int32(k)}
	}
	if zeros[0] && zeros[1] {
		return false
	}
	o.sorted = slices.Grow(o.sorted[:0], n)[:n]
	o.rank = slices.Grow(o.rank[:0], len(vs))[:len(vs)]
	for r, p := range radixSort(in, o.pairs[1]) {
		o.sorted[r] = vs[p.at]
		o.rank[p.at] = int32(r)
	}
	words := (n + 63) / 64
	o.shift = bits.Len(uint(words)) / 2
	blocks := words>>o.shift + 1
	o.words = slices.Grow(o.words[:0], words)[:words]
	o.blocks = slices.Grow(o.blocks[:0], blocks)[:blocks]
	clear(o.words)
	clear(o.blocks)
	return true
}

// enter and leave add and remove a sample.
func (o *Ranks) enter(sample int32) {
	r := uint32(o.rank[sample])
	o.words[r>>6] |= 1 << (r & 63)
	o.blocks[r>>6>>o.shift]++
}

func (o *Ranks) leave(sample int32) {
	r := uint32(o.rank[sample])
	o.words[r>>6] &^= 1 << (r & 63)
	o.blocks[r>>6>>o.shift]--
}

// at is the k-th smallest value that has entered, from 0.
func (o *Ranks) at(k int) float64 { return o.sorted[o.find(k)] }

// pair is the k-th smallest value and the next one. With last there is none,
// and it is the same.
func (o *Ranks) pair(k int, last bool) (v, next float64) {
	r := o.find(k)
	if last {
		return o.sorted[r], o.sorted[r]
	}
	w := (r + 1) >> 6
	rest := o.words[w] >> ((r + 1) & 63) << ((r + 1) & 63)
	for rest == 0 {
		w++
		rest = o.words[w]
	}
	return o.sorted[r], o.sorted[w<<6+bits.TrailingZeros64(rest)]
}

// find is the rank of the k-th smallest value that has entered.
func (o *Ranks) find(k int) int {
	block := 0
	for k >= int(o.blocks[block]) {
		k -= int(o.blocks[block])
		block++
	}
	w := block << o.shift
	for {
		n := bits.OnesCount64(o.words[w])
		if k < n {
			break
		}
		k -= n
		w++
	}
	word, at := o.words[w], 0
	for width := 32; width >= 4; width /= 2 {
		if n := bits.OnesCount64(word & (1<<width - 1)); k >= n {
			k -= n
			word >>= width
			at += width
		}
	}
	for ; k > 0; k-- {
		word &= word - 1
	}
	return w<<6 + at + bits.TrailingZeros64(word)
}

// Quantile is the quantile of the n values that have entered.
func (o *Ranks) Quantile(q float64, n int) float64 {
	lower, upper, weight := position(q, n)
	a, b := o.pair(lower, upper == lower)
	return between(a, b, weight)
}

// MedianDeviation is the median distance of the n values that have entered to their
// median, all of them finite. The values below the median and those above it
// are two lists with distances that grow; as many of the nearest as the median
// needs are i from the one and the rest from the other.
func (o *Ranks) MedianDeviation(n int) float64 {
	lower, upper, weight := position(0.5, n)
	a, b := o.pair(lower, upper == lower)
	median := between(a, b, weight)
	split := lower + 1 // the first value above
	below := func(i int) float64 { return math.Abs(o.at(split-1-i) - median) }
	above := func(i int) float64 { return math.Abs(o.at(split+i) - median) }
	take := lower + 1
	low, high := max(0, take-(n-split)), min(take, split)
	for low < high {
		if i := (low + high) / 2; above(take-1-i) <= below(i) {
			high = i
		} else {
			low = i + 1
		}
	}
	i, j := low, take-low
	v, next := 0.0, math.Inf(1)
	if i > 0 {
		v = below(i - 1)
	}
	if j > 0 {
		v = max(v, above(j-1))
	}
	if upper == lower {
		return between(v, v, weight)
	}
	if i < split {
		next = below(i)
	}
	if j < n-split {
		next = min(next, above(j))
	}
	return between(v, next, weight)
}

// Move goes on from the window first to next to that of lo to hi.
func (o *Ranks) Move(lo, hi, next, first int32) (int32, int32) {
	for ; next < hi; next++ {
		o.enter(next)
	}
	for ; first < lo; first++ {
		o.leave(first)
	}
	return next, first
}

// ranked is a sample to be sorted: its value as an integer of the same order.
type ranked struct {
	key uint64
	at  int32
}

// radixSort sorts in by key, stable, a byte at a time from
// the lowest on. The sorted slice is in or tmp.
func radixSort(in, tmp []ranked) []ranked {
	var counts [8][256]int32
	for _, p := range in {
		for d := range counts {
			counts[d][byte(p.key>>(8*d))]++
		}
	}
	for d := range counts {
		c := &counts[d]
		if len(in) == 0 || int(c[byte(in[0].key>>(8*d))]) == len(in) {
			continue // all have this byte
		}
		sum := int32(0)
		for i, n := range c {
			c[i] = sum
			sum += n
		}
		for _, p := range in {
			b := byte(p.key >> (8 * d))
			tmp[c[b]] = p
			c[b]++
		}
		in, tmp = tmp, in
	}
	return in
}
