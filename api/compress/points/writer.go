package points

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Symbols of deflate, RFC 1951, section 3.2.5.
const (
	endOfBlock = 256
	lengths    = 257 // the first symbol of a length
	symbols    = 286 // literals, the end, lengths
	distances  = 30
)

// maxBits is the most bits of a code. Deflate allows 15; with 12 a word has room for four, and for
// a length and a distance with their extra bits.
const maxBits = 12

// code is a Huffman code: its bits, the first one lowest, from bit 8 on, and their number below.
type code uint64

func newCode(bits, n uint64) code { return code(bits<<8 | n) }

// writer writes a block.
type writer struct {
	out  []byte
	n    int    // bytes of out that are written
	acc  uint64 // bits that are not in out yet
	have uint   // how many

	counts         [symbols]uint32
	distanceCounts [distances]uint32
	literal        [symbols]code
	distance       [distances]code
	length         [longest + 1]code // with extra bits
	pair           [32 * 32]code     // two characters from 0x20 to 0x3f, less 0x20
	builder        builder
}

// write returns the text as a block. The next call uses the memory again.
func (w *writer) write(text []byte, matches []match) []byte {
	w.out = slices.Grow(w.out[:0], len(text)*maxBits/8+1024)
	w.out = w.out[:cap(w.out)]
	w.n, w.acc, w.have = 0, 0, 0
	w.count(text, matches)
	w.header()
	w.body(text, matches)
	w.put(w.literal[endOfBlock])
	w.put(newCode(0, 3)) // a stored block, not the last
	w.have = (w.have + 7) &^ 7
	w.flush()
	w.n += copy(w.out[w.n:], []byte{0, 0, 0xff, 0xff}) // of no bytes
	return w.out[:w.n]
}

// add adds a code, for which there is room.
func add(acc uint64, have uint, c code) (uint64, uint) {
	return acc | uint64(c)>>8<<(have&63), have + uint(c&0xff)
}

// put writes a code.
func (w *writer) put(c code) {
	w.acc, w.have = add(w.acc, w.have, c)
	w.flush()
}

// flush writes all whole bytes.
func (w *writer) flush() { w.n, w.acc, w.have = drain(w.out, w.n, w.acc, w.have) }

// drain writes the whole bytes of acc, which has so many bits, to out[n:], and returns where they
// end and what is left of acc.
func drain(out []byte, n int, acc uint64, have uint) (int, uint64, uint) {
	binary.LittleEndian.PutUint64(out[n:], acc)
	return n + int(have>>3), acc >> (have & 56), have & 7
}

// count counts the symbols of eight matches in 32. Since it does not see all, each symbol counts
// once more.
func (w *writer) count(text []byte, matches []match) {
	for i := range w.counts {
		w.counts[i] = 1
	}
	for i := range w.distanceCounts {
		w.distanceCounts[i] = 1
	}
	at := 0
	for i := range matches {
		m := &matches[i]
		end := at + int(m.literals)
		if i&24 == 0 && m.length > 0 {
			for _, c := range text[at:end] {
				w.counts[c]++
			}
			w.counts[lengths+int(lengthTable[m.length].symbol)]++
			w.distanceCounts[distanceSymbol(m.distance)]++
		}
		at = end + int(m.length)
	}
}

// lengthTable has the symbol of each length, less the first one, its extra bits and their number.
var lengthTable = func() (t [longest + 1]struct{ symbol, extra, bits uint8 }) {
	n := 3
	for symbol := range 28 {
		more := max(0, symbol/4-1)
		for extra := range min(1<<more, longest-n) {
			t[n+extra].symbol, t[n+extra].extra, t[n+extra].bits = uint8(symbol), uint8(extra), uint8(more)
		}
		n += 1 << more
	}
	t[longest].symbol = 28
	return t
}()

// distanceSymbol is the symbol of a distance less one. From 4 on it has symbol/2-1 extra bits.
func distanceSymbol(d uint16) int {
	if d < 4 {
		return int(d)
	}
	extra := bits.Len16(d) - 2
	return 2*extra + int(d>>extra)
}

// derive makes length and pair from the codes.
func (w *writer) derive() {
	for n := 3; n <= longest; n++ {
		t := lengthTable[n]
		c := w.literal[lengths+int(t.symbol)]
		k := uint64(c & 0xff)
		w.length[n] = newCode(uint64(c)>>8|uint64(t.extra)<<k, k+uint64(t.bits))
	}
	for b := range 32 {
		for a := range 32 {
			acc, have := add(0, 0, w.literal[' '+a])
			acc, have = add(acc, have, w.literal[' '+b])
			w.pair[b<<5|a] = newCode(acc, uint64(have))
		}
	}
}

// body writes literals and matches.
func (w *writer) body(text []byte, matches []match) {
	// Bits are at most 7 when a match begins, and are flushed when four codes may have come.
	out, n, acc, have := w.out, w.n, w.acc, w.have
	at := 0
	for i := range matches {
		m := &matches[i]
		end := at + int(m.literals)
		for ; at+4 <= end; at += 4 {
			four := binary.LittleEndian.Uint32(text[at:])
			if four&0xe0e0e0e0 == 0x20202020 {
				acc, have = add(acc, have, w.pair[four&0x1f|four>>3&0x3e0])
				acc, have = add(acc, have, w.pair[four>>16&0x1f|four>>19&0x3e0])
			} else {
				for _, c := range text[at : at+4] {
					acc, have = add(acc, have, w.literal[c])
				}
			}
			n, acc, have = drain(out, n, acc, have)
		}
		if at+4 <= len(text) {
			// Up to three literals are left. A branch for how many would be mispredicted: a pair
			// and one, each of which may be no code.
			four := binary.LittleEndian.Uint32(text[at:])
			left := uint(end - at)
			if four&0xe0e0 == 0x2020 {
				acc, have = add(acc, have, w.pair[four&0x1f|four>>3&0x3e0]&-code(left>>1))
			} else if left >= 2 {
				acc, have = add(acc, have, w.literal[four&0xff])
				acc, have = add(acc, have, w.literal[four>>8&0xff])
			}
			acc, have = add(acc, have, w.literal[four>>(left>>1<<4)&0xff]&-code(left&1))
			at = end
		}
		for ; at < end; at++ {
			acc, have = add(acc, have, w.literal[text[at]])
		}
		if m.length > 0 {
			n, acc, have = drain(out, n, acc, have)
			acc, have = add(acc, have, w.length[m.length])
			s := distanceSymbol(m.distance)
			acc, have = add(acc, have, w.distance[s])
			if s >= 4 {
				extra := uint64(s/2 - 1)
				acc, have = add(acc, have, newCode(uint64(m.distance)&(1<<extra-1), extra))
			}
			at += int(m.length)
		}
		n, acc, have = drain(out, n, acc, have)
	}
	w.n, w.acc, w.have = n, acc, have
}
