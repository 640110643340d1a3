package encoding

import (
	"encoding/binary"
	"math/bits"

	"github.com/promwarp/promwarp/selection/slab"
)

// An XOR chunk, in bits:
//
//	16          number of samples
//	8…80, 64    time of the first sample as a varint, its value
//	8…80, x     distance of the second one as a varint, its value as below
//	1…68, x     each further one: how its distance differs from the one before, its value
//
//	0           distances are the same          x = 0          the value is the same
//	10    14    they differ by 14 bits          10 n           n bits of the two values' XOR,
//	110   17                                                   those of the window
//	1110  20                                    11 5 6 n       another window: how many zeros
//	1111  64                                                   are before it, how long it is
//
// So of what is cut off behind only the bits go. Where some is cut off in front, two
// samples are written anew, the second one with the window that is in force there; the
// bits of those behind them stay.

// xorReader walks an XOR chunk.
type xorReader struct {
	data []byte // with slab.Pad bytes more than the chunk has
	pos  int    // bit
	end  int    // bits of the chunk

	k        int // samples so far
	t, delta int64
	value    uint64
	leading  int // zeros before the window; -1 before there is one
	window   int // bits of it
}

// word returns 64 bits from pos on, of which the first 57 are right.
func (r *xorReader) word() uint64 {
	return binary.BigEndian.Uint64(r.data[r.pos>>3:]) << (r.pos & 7)
}

// take returns the next n bits, 0 to 64.
func (r *xorReader) take(n int) uint64 {
	if n > 32 {
		high := r.take(n - 32)
		return high<<32 | r.take(32)
	}
	v := r.word() >> (64 - n)
	r.pos += n
	return v
}

// next reads the next sample. What it reports false of is not as it should be, and so is
// what is beyond the end.
func (r *xorReader) next() bool {
	switch r.k {
	case 0:
		t, n := binary.Varint(r.data[r.pos>>3 : r.end>>3])
		if n <= 0 {
			return false
		}
		r.t, r.pos = t, r.pos+8*n
		if r.pos+64 > r.end {
			return false
		}
		r.value = r.take(64)
		r.k++
		return true
	case 1:
		d, n := binary.Uvarint(r.data[r.pos>>3 : r.end>>3])
		if n <= 0 {
			return false
		}
		r.delta, r.pos = int64(d), r.pos+8*n
	default:
		// The longest are 4 and 64 bits, and 2, 5, 6 and 64 for the value; what is read
		// beyond the end is looked at below, if it was there to be read.
		w := r.word()
		if w>>63 == 0 {
			r.pos++
			break
		}
		var n int
		switch bits.LeadingZeros64(^w) {
		case 1:
			r.pos, n = r.pos+2, 14
		case 2:
			r.pos, n = r.pos+3, 17
		case 3:
			r.pos, n = r.pos+4, 20
		default:
			r.pos += 4
			if r.pos+64 > r.end {
				return false
			}
			r.delta += int64(r.take(64))
		}
		if n > 0 {
			d := int64(r.take(n))
			if d > 1<<(n-1) {
				d -= 1 << n
			}
			r.delta += d
		}
	}
	if r.pos >= r.end {
		return false
	}
	last := r.t
	r.t += r.delta
	r.k++
	return r.readValue() && r.t > last && r.pos <= r.end
}

// readValue reads how the value differs from the one before.
func (r *xorReader) readValue() bool {
	w := r.word()
	switch {
	case w>>63 == 0:
		r.pos++
		return true
	case w>>62 == 0b10:
		r.pos += 2
		if r.leading < 0 {
			return false
		}
	default:
		r.leading, r.window = int(w>>57&31), int(w>>51&63)
		if r.window == 0 {
			r.window = 64
		}
		r.pos += 13
		if r.leading+r.window > 64 {
			return false
		}
	}
	if r.pos+r.window > r.end {
		return false
	}
	r.value ^= r.take(r.window) << (64 - r.leading - r.window)
	return true
}

// CutXOR returns the bytes of a chunk of what c, an XOR chunk with the bytes from, has from mint to
// maxt (ms, both included), and the times of its first and last sample; none if that is nothing. It
// takes half the time of encoding the samples again. It is not ok where anything is not as it
// should be: who decodes it finds what.
func CutXOR(c slab.Chunk, from []byte, mint, maxt int64) (data []byte, firstT, lastT int64, ok bool) {
	r := xorReader{data: from[:len(from)+slab.Pad], pos: 16, end: 8 * len(from), leading: -1}
	n := int(binary.BigEndian.Uint16(from))

	var first, second xorReader // after the first and the second sample in range
	kept, end := 0, 0
	for r.k < n {
		if !r.next() || r.t > c.MaxT || r.k == 1 && r.t < c.MinT {
			return nil, 0, 0, false
		}
		if r.t > maxt {
			break
		}
		if r.t < mint {
			continue
		}
		switch kept {
		case 0:
			first = r
		case 1:
			second = r
		}
		kept++
		lastT, end = r.t, r.pos
	}
	if kept == 0 {
		return nil, 0, 0, true
	}
	// The two that are written anew, and the last word.
	w := bitWriter{b: make([]byte, 0, len(from)+40)}
	w.write(uint64(kept), 16)
	if first.k == 1 {
		w.copy(r.data, 16, end)
		return w.end(), first.t, lastT, true
	}
	w.writeVarint(uint64(first.t)<<1 ^ uint64(first.t>>63))
	w.write(first.value, 64)
	if kept > 1 {
		w.writeVarint(uint64(second.t - first.t))
		if second.leading < 0 {
			w.write(0, 1)
		} else {
			leading, window := uint(second.leading), uint(second.window)
			w.writeWindow(leading, window)
			w.write((first.value^second.value)>>(64-leading-window), window)
		}
		w.copy(r.data, second.pos, end)
	}
	return w.end(), first.t, lastT, true
}

// copy writes the bits of b from one to before another; 8 bytes must be readable from
// each of them.
func (w *bitWriter) copy(b []byte, from, to int) {
	for ; to-from >= 32; from += 32 {
		w.write(binary.BigEndian.Uint64(b[from>>3:])<<(from&7)>>32, 32)
	}
	if n := to - from; n > 0 {
		w.write(binary.BigEndian.Uint64(b[from>>3:])<<(from&7)>>(64-n), uint(n))
	}
}
