package points

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// match is literals, followed by text that occurs before.
type match struct {
	literals int32
	length   int16  // of the text that occurs before; 0 for the last match, which has none
	distance uint16 // how far before it occurs, less one
}

const (
	window    = 32 << 10 // the greatest distance in deflate
	longest   = 258      // the longest match in deflate
	tableBits = 13
)

var separator = []byte(`"],[`)

// separatorBits is the separator as binary.LittleEndian reads it.
const separatorBits = '"' | ']'<<8 | ','<<16 | '['<<24

// The finder goes from point to point. Nearer to the end than margin it does not look, so that it
// may read whole words. A separator and a time are at most maxSlot bytes.
const (
	margin  = 128
	maxSlot = 40
)

// finder finds what of a text occurs before. In a point it looks at three places:
//
//	"],[1795343940,"14.30197123232323
//	^            ^    ^
//	|            |    a fraction, or a whole number: where the table has the same five bytes
//	|            the end of the time and the first digits: in the point before
//	the separator and the first digits of the time: in the point before
//
// A match may reach into the next point or past it, where values stay the same. What lies between
// the points of two series is looked up at each byte.
type finder struct {
	text    []byte
	matches []match
	pending int                   // up to here the text is in matches
	table   [1 << tableBits]int32 // where a hash occurred last
}

// find sets matches to those of the text.
func (f *finder) find(text []byte) {
	f.text, f.matches, f.pending = text, f.matches[:0], 0
	clear(f.table[:])
	before, slot := -1, 0 // the point before, and the bytes of its separator and time
	for at := 0; at+margin < len(text); {
		if binary.LittleEndian.Uint32(text[at:]) != separatorBits {
			n := bytes.Index(text[at:], separator)
			if n < 0 {
				n = len(text) - at
			}
			f.general(at, at+n)
			at += n
			continue
		}
		if slot == 0 || text[at+slot-1] != '"' || text[at+slot-2] != ',' {
			slot = bytes.IndexByte(text[at+1:at+maxSlot], '"') + 2
			if slot < 2+len(separator) { // there is none, or it is no point
				slot = 0
				f.general(at, at+len(separator))
				at += len(separator)
				continue
			}
		}
		value := at + slot
		if back := at - before; before >= 0 && back <= window {
			f.likeBefore(at, value, back)
		}
		before = at
		at = f.value(value)
	}
	f.matches = append(f.matches, match{literals: int32(len(text) - f.pending)})
}

// likeBefore compares the point at a place, and its value, with the point that is so far back.
func (f *finder) likeBefore(at, value, back int) {
	if from := max(at, f.pending); from+4 < value {
		if n := f.common16(from-back, from); n >= 4 {
			f.add(from, n, back)
		}
	}
	if from := max(value-3, f.pending); from < value {
		if n := f.common(from-back, from); n >= 3 {
			f.add(from, n, back)
		}
	}
}

// value looks up the value at a place, and returns where it ends.
func (f *finder) value(at int) int {
	const least = 5 // bytes of a match
	text := f.text
	end, dot := at, -1
	for {
		if end+8 > len(text) {
			return len(text)
		}
		w := binary.LittleEndian.Uint64(text[end:])
		if dot < 0 {
			if z := zeros(w ^ dots); z != 0 {
				dot = end + bits.TrailingZeros64(z)/8
			}
		}
		if z := zeros(w ^ quotes); z != 0 {
			end += bits.TrailingZeros64(z) / 8
			break
		}
		end += 8
	}
	if dot < 0 || dot > end {
		dot = at
	}
	if end-dot < least || dot+16 > len(text) {
		return end
	}
	slot := hash(binary.LittleEndian.Uint64(text[dot:]) << 24) // of five bytes
	other := int(f.table[slot])
	f.table[slot] = int32(dot)
	back := dot - other
	if uint(back-1) >= window {
		return end
	}
	n := f.common(other, dot)
	if dot+n-max(dot, f.pending) < least {
		return end
	}
	for dot > f.pending && other > 0 && text[dot-1] == text[other-1] && n < longest {
		dot, other, n = dot-1, other-1, n+1
	}
	skip := max(0, f.pending-dot) // likeBefore has these
	f.add(dot+skip, n-skip, back)
	return end
}

const (
	ones   = 0x0101010101010101
	dots   = '.' * ones
	quotes = '"' * ones
)

// zeros is 0 where no byte of w is 0. Otherwise its lowest bit that is set is in the first such
// byte.
func zeros(w uint64) uint64 { return (w - ones) & ^w & (0x80 * ones) }

// general looks up each byte of a part of the text.
func (f *finder) general(at, end int) {
	end = min(end, len(f.text)-16)
	for at = max(at, f.pending); at < end; {
		slot := hash(binary.LittleEndian.Uint64(f.text[at:]) << 32) // of four bytes
		other := int(f.table[slot])
		f.table[slot] = int32(at)
		if back := at - other; uint(back-1) < window {
			if n := f.common(other, at); n >= 4 {
				f.add(at, n, back)
				at += n
				continue
			}
		}
		at++
	}
}

func hash(w uint64) uint64 { return w * 0x9e3779b97f4a7c15 >> (64 - tableBits) }

// common is how many bytes are the same at two places, the second of which has 16 bytes, at most
// longest.
func (f *finder) common(a, b int) int {
	n := f.common16(a, b)
	if n < 16 {
		return n
	}
	text := f.text
	for b+n+8 <= len(text) && n+8 <= longest {
		if x := binary.LittleEndian.Uint64(text[a+n:]) ^ binary.LittleEndian.Uint64(text[b+n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for b+n < len(text) && n < longest && text[a+n] == text[b+n] {
		n++
	}
	return n
}

// common16 is how many of 16 bytes are the same at two places.
func (f *finder) common16(a, b int) int {
	x := binary.LittleEndian.Uint64(f.text[a:]) ^ binary.LittleEndian.Uint64(f.text[b:])
	if x != 0 {
		return bits.TrailingZeros64(x) / 8
	}
	x = binary.LittleEndian.Uint64(f.text[a+8:]) ^ binary.LittleEndian.Uint64(f.text[b+8:])
	return 8 + bits.TrailingZeros64(x)/8
}

// add adds the match of n bytes at a place with what is so far back.
func (f *finder) add(at, n, back int) {
	f.matches = append(f.matches, match{int32(at - f.pending), int16(n), uint16(back - 1)})
	f.pending = at + n
}
