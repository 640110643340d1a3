package points

import (
	"math/bits"
	"slices"
)

// builder makes the lengths of Huffman codes.
type builder struct {
	used []uint32 // counts, and in the lowest symbolBits their symbols
	tree []node
}

const symbolBits = 9

type node struct {
	count  uint32
	parent int32
	depth  int32
}

// lengths sets the length of each symbol's code, at most most bits; 0 for a symbol that does not
// occur. At least two occur.
func (b *builder) lengths(counts []uint32, length []uint8, most int) {
	b.used = b.used[:0]
	clear(length)
	for s, c := range counts {
		if c > 0 {
			b.used = append(b.used, c<<symbolBits|uint32(s))
		}
	}
	slices.Sort(b.used)
	b.grow()
	room := 1 << most // how many codes of the greatest length there may be more
	for i, u := range b.used {
		n := min(int(b.tree[i].depth), most)
		length[u&(1<<symbolBits-1)] = uint8(n)
		room -= 1 << (most - n)
	}
	// Cutting codes to most bits may have made too many of them. The rarest become longer.
	for i := 0; room < 0; i = (i + 1) % len(b.used) {
		n := &length[b.used[i]&(1<<symbolBits-1)]
		if int(*n) < most {
			*n++
			room += 1 << (most - int(*n))
		}
	}
	// A set of codes has to be complete: the most frequent ones become shorter.
	for i := len(b.used) - 1; room > 0; i-- {
		n := &length[b.used[i]&(1<<symbolBits-1)]
		for *n > 1 && 1<<(most-int(*n)) <= room {
			room -= 1 << (most - int(*n))
			*n--
		}
	}
}

// grow makes the tree. Its leaves come first, then the inner nodes, both in the order of their
// counts, and the root last.
func (b *builder) grow() {
	n := len(b.used)
	b.tree = slices.Grow(b.tree[:0], 2*n)[:2*n-1]
	for i, u := range b.used {
		b.tree[i].count = u >> symbolBits
	}
	leaf, inner := 0, n
	rarest := func(end int) int {
		if leaf < n && (inner == end || b.tree[leaf].count <= b.tree[inner].count) {
			leaf++
			return leaf - 1
		}
		inner++
		return inner - 1
	}
	for i := n; i < len(b.tree); i++ {
		one, other := rarest(i), rarest(i)
		b.tree[i].count = b.tree[one].count + b.tree[other].count
		b.tree[one].parent, b.tree[other].parent = int32(i), int32(i)
	}
	b.tree[len(b.tree)-1].depth = 0
	for i := len(b.tree) - 2; i >= 0; i-- {
		b.tree[i].depth = b.tree[b.tree[i].parent].depth + 1
	}
}

// assign gives each symbol the code that deflate gives it for its length.
func assign(length []uint8, codes []code) {
	var next [16]uint64 // how many codes have a length, then the next one of that length
	for _, n := range length {
		next[n]++
	}
	next[0] = 0
	var first uint64
	for n := 1; n < len(next); n++ {
		next[n], first = first, (first+next[n])<<1
	}
	for s, n := range length {
		codes[s] = 0
		if n > 0 {
			codes[s] = newCode(bits.Reverse64(next[n])>>(64-n), uint64(n))
			next[n]++
		}
	}
}

// repeat is the symbol for the length before, 3 to 6 times, among those for lengths of codes.
// Others are the lengths themselves. Those for runs of 0 are not needed: each symbol has a code.
const repeat = 16

// headerOrder is the order of these symbols in a header.
var headerOrder = [19]uint8{repeat, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// run is a symbol for lengths of codes with its extra bits.
type run struct{ symbol, extra, bits uint8 }

// header makes the codes and writes them.
func (w *writer) header() {
	var length [symbols + distances]uint8
	w.builder.lengths(w.counts[:], length[:symbols], maxBits)
	w.builder.lengths(w.distanceCounts[:], length[symbols:], maxBits)
	assign(length[:symbols], w.literal[:])
	assign(length[symbols:], w.distance[:])
	w.derive()

	var runs [symbols + distances]run
	var counts [len(headerOrder)]uint32
	n := 0
	for rest := length[:]; len(rest) > 0; n++ {
		var k int
		runs[n], k = firstRun(rest, len(rest) < len(length) && length[len(length)-len(rest)-1] == rest[0])
		counts[runs[n].symbol]++
		rest = rest[k:]
	}
	var short [len(headerOrder)]uint8
	var codes [len(headerOrder)]code
	w.builder.lengths(counts[:], short[:], 7)
	assign(short[:], codes[:])

	const dynamic = 2 // a block with codes of its own, not the last
	w.put(newCode(dynamic<<1|(symbols-257)<<3|(distances-1)<<8|uint64(len(headerOrder)-4)<<13, 17))
	for _, s := range headerOrder {
		w.put(newCode(uint64(short[s]), 3))
	}
	for _, r := range runs[:n] {
		w.put(codes[r.symbol])
		w.put(newCode(uint64(r.extra), uint64(r.bits)))
	}
}

// firstRun is the run with which lengths begin, and how many it is. Again says whether the length
// before them is that of the first.
func firstRun(length []uint8, again bool) (run, int) {
	n := 1
	for n < len(length) && length[n] == length[0] {
		n++
	}
	if n = min(n, 6); again && n >= 3 {
		return run{repeat, uint8(n - 3), 2}, n
	}
	return run{symbol: length[0]}, 1
}
