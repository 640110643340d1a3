package decode

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/selection/slab"
)

// An XOR2 chunk has a header of three bytes, the number of samples (16 bits)
// and the start-timestamp byte, and then a stream of bits:
//
//   - The first sample: its time in ms (signed variable-length number), its
//     value (64 bits) and, with bit 7 of the start-timestamp byte set, how long
//     before it its start timestamp is (signed variable-length number).
//   - The second sample: its distance from the first (unsigned variable-length
//     number) and a value code.
//   - Every later sample: a code for both by how much its distance from the one
//     before differs from that one's (the change) and its value:
//
//     0      no change, the value repeated
//     100    no change, a value in the range of bits used last
//     101    no change, a value with a new range of bits
//     110    a change of 13 bits, signed, then a value code
//     1110   a change of 20 bits, signed, then a value code
//     11110  a change of 64 bits, then a value code
//     11111  no change, a stale marker
//
//   - The value codes: 0 repeats the value, 10 changes bits in the range used
//     last, 110 changes bits in a new range, which newRange describes, and 111 is
//     a stale marker. Values repeat or change the last one that came before any
//     stale markers; before the first it is 0.
//   - If the low 7 bits of the start-timestamp byte are k > 0, every sample from
//     index k on is followed by a number for its start timestamp: as many ones
//     as an index into startBits, a zero if they are fewer than eight, and bits.

// startBits is how many bits a start timestamp takes, by its number of ones.
var startBits = [...]uint{1, 2 + 3, 3 + 6, 4 + 9, 5 + 12, 6 + 18, 7 + 25, 8 + 56, 8 + 64}

// startNumber reads the number for a start timestamp at bit pos that begins with so
// many ones.
func startNumber(b []byte, pos uint, size, ones int) int64 {
	prefix := uint(min(ones+1, 8))
	n := startBits[ones] - prefix
	switch n {
	case 0:
		return 0
	case 64:
		return int64(load64(b, pos+prefix, size))
	}
	return signed(load64(b, pos+prefix, size)>>(64-n), n)
}

// decodeXOR2 decodes the first len(ts) samples of an XOR2 chunk into ts, ms,
// and vs. b is the whole chunk and must have slab.Pad readable bytes behind its
// end. It reports whether a stale marker is among the values. Start timestamps are
// added to starts, in which the first sample is sample first, or passed over if that
// is nil.
func decodeXOR2(b []byte, ts []int64, vs []float64, starts *Starts, first int) (stale bool, err error) {
	n := len(ts)
	if n == 0 {
		return false, nil
	}
	if len(b) < 3 {
		return false, errTruncated
	}
	vs = vs[:n]
	t, v, at, err := firstSample(b, 3)
	if err != nil {
		return false, err
	}
	start := int64(0)
	if b[2]&0x80 != 0 {
		before, k := binary.Varint(b[at:])
		if k <= 0 {
			return false, varintError(k)
		}
		start, at = t-before, at+k
	}
	if starts != nil {
		starts.Add(first, start)
	}
	ts[0], vs[0] = t, math.Float64frombits(v)
	if v == value.StaleNaN {
		stale, v = true, 0
	}
	if n == 1 {
		return stale, nil
	}
	// Samples from index changing on have start timestamps of their own: how long
	// before the sample before them they are, as how much longer than that one's.
	changing, before := n, int64(0)
	if k := int(b[2] & 0x7f); k > 0 {
		changing = min(k, n)
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
		// w starts with the value code of sample i.
		t += delta
		out := v
		switch {
		case w>>63 == 0:
			pos++
		case w>>61 == 0b111:
			pos += 3
			out = value.StaleNaN
		default:
			var x uint64
			if w>>62 == 0b10 {
				pos += 2
				x = w << 2
				if sig+2 > shown {
					x = load64(b, pos, size)
				}
			} else {
				lead, sig, mask = newRange(w << 3)
				pos += 14
				x = w << 14
				if sig+14 > shown {
					x = load64(b, pos, size)
				}
			}
			pos += sig
			v ^= x >> (lead & 63) & mask
			out = v
		}
		if out == value.StaleNaN {
			stale = true
		}
		ts[i], vs[i] = t, math.Float64frombits(out)
		if i >= changing {
			ones := bits.LeadingZeros64(^load64(b, pos, size) | 1<<55)
			if starts != nil {
				before += startNumber(b, pos, size, ones)
				starts.Add(first+i, ts[i-1]-before)
			}
			pos += startBits[ones]
		}
		i++

		// Samples as far apart as the two before, as most are, without start
		// timestamps.
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
			if i >= changing {
				break
			}
			if w>>61 == 0b100 { // a value with bits in the same range
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
			if w>>61 == 0b101 { // in a new range, as often with counters
				lead, sig, mask = newRange(w << 3)
				pos += 14
				x := w << 14
				if sig > windowBits-14 {
					x = load64(b, pos, size)
				}
				v ^= x >> (lead & 63) & mask
				t += delta
				if v == value.StaleNaN {
					stale = true
				}
				ts[i], vs[i] = t, math.Float64frombits(v)
				pos += sig
				i++
				continue
			}
			if w>>63 != 0 {
				break
			}
			// The value repeats for as many samples as there are zeros.
			same := min(bits.LeadingZeros64(w|1<<(64-windowBits)), changing-i)
			t = repeat(ts[i:i+same], vs[i:i+same], t, delta, math.Float64frombits(v))
			pos += uint(same)
			i += same
		}

		// The next sample's code becomes its value code. With scrapes that are a
		// little late most are of the first kind.
		switch {
		case w>>61 == 0b110:
			delta += int64(w<<3) >> 51
			w <<= 16
			pos += 16
			shown = windowBits - 16
		case w>>60 == 0b1110:
			delta += int64(w<<4) >> 44
			w <<= 24
			pos += 24
			shown = windowBits - 24
		case w>>59 == 0b11110:
			delta += int64(load64(b, pos+5, size))
			pos += 5 + 64
			w = load64(b, pos, size)
			shown = windowBits
		case w>>59 == 0b11111:
			w <<= 2
			pos += 2
			shown = windowBits - 2
			continue
		case w>>61 == 0b101:
			w ^= 0b011 << 61
			shown = windowBits
			continue
		case w>>61 == 0b100:
			w = w<<1 | 1<<63
			pos++
			shown = windowBits - 1
			continue
		default:
			shown = windowBits
			continue
		}
		if delta <= 0 {
			if pos > end {
				return false, errTruncated
			}
			return false, errBackwards
		}
		far |= uint64(delta)
	}
}
