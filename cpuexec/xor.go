package cpuexec

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/selection"
)

var (
	errTruncated = errors.New("its bit stream ends before its last sample")
	errBadBits   = errors.New("its bit stream is not a valid XOR encoding")
	errBackwards = errors.New("its timestamps do not increase")
)

// decodeXOR decodes the first len(ts) samples of an XOR chunk (the format is
// described in Prometheus's tsdb/chunkenc/xor.go) into ts, ms, and vs. b is the
// whole chunk with its two header bytes and must have selection.Pad readable
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
	size := len(b)
	end := uint(size) * 8
	b = b[:size+selection.Pad]

	t, k := binary.Varint(b[2:size])
	if k <= 0 || 2+k+8 > size {
		return false, errTruncated
	}
	pos := uint(2+k) * 8
	v := binary.BigEndian.Uint64(b[2+k:])
	pos += 64
	ts[0], vs[0] = t, math.Float64frombits(v)
	stale = v == value.StaleNaN
	if n == 1 {
		return stale, nil
	}

	first, k := binary.Uvarint(b[pos/8 : size])
	if k <= 0 {
		return false, errTruncated
	}
	pos += uint(k) * 8
	delta := int64(first)
	if delta <= 0 {
		return false, errBackwards
	}
	sig, trail := uint(64), uint(0) // of the last value that changed
	w := binary.BigEndian.Uint64(b[pos/8:])

	for i := 1; ; {
		t += delta
		// The value: w starts with its control bits and holds at least 56 bits of
		// the stream, so most values need no further load.
		if w>>63 == 0 {
			pos++
		} else {
			var x uint64
			if w>>62 == 0b10 {
				pos += 2
				x = w << 2
				if sig > 54 {
					x = load64(b, pos, size)
				}
			} else {
				lead := uint(w << 2 >> 59)
				if sig = uint(w << 7 >> 58); sig == 0 {
					sig = 64
				}
				if lead+sig > 64 {
					return false, errBadBits
				}
				trail = 64 - lead - sig
				pos += 13
				x = w << 13
				if sig > 43 {
					x = load64(b, pos, size)
				}
			}
			if pos += sig; pos > end {
				return false, errTruncated
			}
			v ^= x >> ((64 - sig) & 63) << (trail & 63)
			if v == value.StaleNaN {
				stale = true
			}
		}
		ts[i], vs[i] = t, math.Float64frombits(v)
		i++
		if i == n {
			break
		}

		// The next timestamp: the change of the distance between samples.
		for {
			if pos >= end {
				return false, errTruncated
			}
			w = binary.BigEndian.Uint64(b[pos>>3:]) << (pos & 7)
			if w>>62 != 0 {
				break
			}
			// Neither distance nor value change for as many samples as there
			// are pairs of zeros, of which w shows 28.
			same := min(bits.LeadingZeros64(w|1<<7)>>1, n-i)
			f := math.Float64frombits(v)
			for end := i + same; i < end; i++ {
				t += delta
				ts[i], vs[i] = t, f
			}
			pos += uint(same) * 2
			if i == n {
				if pos > end {
					return false, errTruncated
				}
				return stale, nil
			}
		}
		if w>>63 == 0 {
			pos++
			w <<= 1
			continue
		}
		var dod int64
		switch {
		case w>>62 == 0b10:
			dod = signed(w<<2>>50, 14)
			pos += 16
		case w>>61 == 0b110:
			dod = signed(w<<3>>47, 17)
			pos += 20
		case w>>60 == 0b1110:
			dod = signed(w<<4>>44, 20)
			pos += 24
		default:
			pos += 4
			dod = int64(load64(b, pos, size))
			pos += 64
		}
		if delta += dod; delta <= 0 {
			return false, errBackwards
		}
		if pos >= end {
			return false, errTruncated
		}
		w = binary.BigEndian.Uint64(b[pos>>3:]) << (pos & 7)
	}
	if pos > end {
		return false, errTruncated
	}
	return stale, nil
}

// load64 reads 64 bits at bit pos of b, whose stream is size bytes long; past
// its end, which the caller checks for, it reads zeros.
func load64(b []byte, pos uint, size int) uint64 {
	i, s := int(pos>>3), pos&7
	if i >= size {
		return 0
	}
	return binary.BigEndian.Uint64(b[i:])<<s | uint64(b[i+selection.Pad])>>(8-s)
}

// signed reads an n-bit number in which values above 1<<(n-1) are negative.
func signed(x uint64, n uint) int64 {
	if x > 1<<(n-1) {
		return int64(x) - 1<<n
	}
	return int64(x)
}
