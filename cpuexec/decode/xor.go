package decode

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/selection/slab"
)

// decodeXOR decodes the first len(ts) samples of an XOR chunk (the format is
// described in Prometheus's tsdb/chunkenc/xor.go) into ts, ms, and vs. b is the
// whole chunk with its two header bytes and must have slab.Pad readable
// bytes behind its end. It reports whether a stale marker is among the values.
//
// Each step looks at a 64-bit window loaded at the current bit position. The
// branches predict well on real data, which lets the processor run ahead of the
// dependency of each position on the one before.
func decodeXOR(b []byte, ts []int64, vs []float64) (stale bool, err error) {
	n := len(ts)
	if n == 0 {
		return false, nil
	}
	vs = vs[:n]
	t, v, at, err := firstSample(b, 2)
	if err != nil {
		return false, err
	}
	ts[0], vs[0] = t, math.Float64frombits(v)
	stale = v == value.StaleNaN
	if n == 1 {
		return stale, nil
	}
	delta, at, err := firstDistance(b, at)
	if err != nil {
		return false, err
	}
	far := farApart(t, delta)

	size, end := len(b), uint(len(b))*8
	b = b[:size+slab.Pad]
	pos := uint(at) * 8
	// The bits that the last value to change might change.
	lead, sig, mask := uint(0), uint(64), ^uint64(0)
	w := binary.BigEndian.Uint64(b[at : at+8])
	shown := uint(windowBits) // how many bits of w are the stream's

	for i := 1; ; {
		// w starts with the value of sample i.
		t += delta
		if w>>63 == 0 {
			pos++
		} else {
			var x uint64
			if w>>62 == 0b10 {
				pos += 2
				x = w << 2
				if sig+2 > shown {
					x = load64(b, pos, size)
				}
			} else {
				lead, sig, mask = newRange(w << 2)
				pos += 13
				x = w << 13
				if sig+13 > shown {
					x = load64(b, pos, size)
				}
			}
			pos += sig
			if v ^= x >> (lead & 63) & mask; v == value.StaleNaN {
				stale = true
			}
		}
		ts[i], vs[i] = t, math.Float64frombits(v)
		i++

		// Samples as far apart as the two before, as most are.
		for {
			if i >= len(ts) {
				if pos > end {
					return false, errTruncated
				}
				return stale, checkOrder(ts, far)
			}
			at := int(pos >> 3)
			if at+8 > len(b) {
				return false, errTruncated
			}
			w = binary.BigEndian.Uint64(b[at:at+8]) << (pos & 7)
			if w>>61 == 0b010 { // a value with bits in the same range
				x := w << 3
				if sig > windowBits-3 {
					x = load64(b, pos+3, size)
				}
				v ^= x >> (lead & 63) & mask
				t += delta
				if v == value.StaleNaN {
					stale = true
				}
				ts[i], vs[i] = t, math.Float64frombits(v)
				pos += 3 + sig
				i++
				continue
			}
			if w>>62 != 0 {
				break
			}
			// The value repeats for as many samples as there are pairs of zeros,
			// of which w shows 28.
			same := min(bits.LeadingZeros64(w|1<<(64-windowBits))>>1, n-i)
			t = repeat(ts[i:i+same], vs[i:i+same], t, delta, math.Float64frombits(v))
			pos += uint(same) * 2
			i += same
		}

		// The next sample's distance; what is left of w begins with its value.
		if w>>63 == 0 {
			w <<= 1
			pos++
			shown = windowBits - 1
			continue
		}
		var dod int64
		switch {
		case w>>62 == 0b10:
			dod = signed(w<<2>>50, 14)
			w <<= 16
			pos += 16
			shown = windowBits - 16
		case w>>61 == 0b110:
			dod = signed(w<<3>>47, 17)
			w <<= 20
			pos += 20
			shown = windowBits - 20
		case w>>60 == 0b1110:
			dod = signed(w<<4>>44, 20)
			w <<= 24
			pos += 24
			shown = windowBits - 24
		default:
			dod = int64(load64(b, pos+4, size))
			pos += 4 + 64
			w = load64(b, pos, size)
			shown = windowBits
		}
		if delta += dod; delta <= 0 {
			if pos > end {
				return false, errTruncated
			}
			return false, errBackwards
		}
		far |= uint64(delta)
	}
}

// signed reads an n-bit number in which values above 1<<(n-1) are negative.
func signed(x uint64, n uint) int64 {
	if x > 1<<(n-1) {
		return int64(x) - 1<<n
	}
	return int64(x)
}
