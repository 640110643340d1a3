package decode

import (
	"encoding/binary"
	"errors"

	"github.com/promwarp/promwarp/selection/slab"
)

// This file is what the decoders of float chunks have in common. They read the
// stream through a 64-bit window loaded at the bit position; as that may start
// anywhere in its first byte, it shows at least windowBits bits.
const windowBits = 57

var (
	errTruncated = errors.New("its bit stream ends before its last sample")
	errBadNumber = errors.New("its bit stream has a time of more than 64 bits")
	errBackwards = errors.New("its timestamps do not increase")
)

// firstSample reads the sample that starts at byte at of the chunk b: a
// variable-length time in ms and the bits of a value. next is the byte behind it.
func firstSample(b []byte, at int) (t int64, v uint64, next int, err error) {
	t, k := binary.Varint(b[at:])
	if k <= 0 {
		return 0, 0, 0, varintError(k)
	}
	if next = at + k; next+8 > len(b) {
		return 0, 0, 0, errTruncated
	}
	return t, binary.BigEndian.Uint64(b[next:]), next + 8, nil
}

// firstDistance reads the distance in ms of the second sample from the first,
// an unsigned variable-length number at byte at of b.
func firstDistance(b []byte, at int) (delta int64, next int, err error) {
	x, k := binary.Uvarint(b[at:])
	if k <= 0 {
		return 0, 0, varintError(k)
	}
	if delta = int64(x); delta <= 0 {
		return 0, 0, errBackwards
	}
	return delta, at + k, nil
}

// varintError is the error for a number of k bytes, in encoding/binary's sense.
func varintError(k int) error {
	if k < 0 {
		return errBadNumber
	}
	return errTruncated
}

// load64 reads 64 bits at bit pos of b, whose stream is size bytes long; past
// its end, which the caller checks for, it reads zeros.
func load64(b []byte, pos uint, size int) uint64 {
	i, s := int(pos>>3), pos&7
	if i >= size {
		return 0
	}
	return binary.BigEndian.Uint64(b[i:i+8])<<s | uint64(b[i+slab.Pad])>>(8-s)
}

// newRange reads the 11 bits at the top of w that say which bits of a value
// change: 5 bits count the leading bits that do not, 6 the bits that may, of which
// 0 means 64. mask has the bits set that are not behind them. If they are more
// than a value has, which no encoder writes, mask is 0 and none change.
func newRange(w uint64) (lead, sig uint, mask uint64) {
	lead = uint(w >> 59)
	if sig = uint(w << 5 >> 58); sig == 0 {
		sig = 64
	}
	mask = ^uint64(0) << ((64 - lead - sig) & 63)
	if lead+sig > 64 {
		mask = 0
	}
	return lead, sig, mask
}

// repeat fills ts and vs with samples of value f that are delta ms apart,
// beginning delta after t, and returns the time of the last. Not inlined, it has
// registers enough for its loop.
//
//go:noinline
func repeat(ts []int64, vs []float64, t, delta int64, f float64) int64 {
	vs = vs[:len(ts)]
	i := 0
	for ; i < len(ts)-1; i += 2 {
		ts[i], vs[i] = t+delta, f
		t += 2 * delta
		ts[i+1], vs[i+1] = t, f
	}
	if i < len(ts) {
		t += delta
		ts[i], vs[i] = t, f
	}
	return t
}

// farApart has bits set from 1<<46 on when times that begin at t and whose
// distances, all above 0, are delta or less may leave the range of int64. It is
// meant to be or-ed over the distances.
func farApart(t, delta int64) uint64 { return uint64(t^t>>63)>>16 | uint64(delta) }

// checkOrder returns an error if times that may leave the range of int64, going
// by what farApart returned, do.
func checkOrder(ts []int64, far uint64) error {
	if far>>46 == 0 {
		return nil // at most 1<<16 distances of less than 1<<46, from below 1<<62
	}
	for i := 1; i < len(ts); i++ {
		if ts[i] <= ts[i-1] {
			return errBackwards
		}
	}
	return nil
}
