package gpuexec

import (
	"math"
	"slices"

	"github.com/promwarp/promwarp/kernels/abi"
)

// The statuses of corrupt chunks, and the flag of stale markers.
const (
	truncated = abi.Status(1)
	badNumber = abi.Status(2)
	backwards = abi.Status(3)
	stale     = abi.Status(256)
)

// slowBits reads a bit at a time. Prometheus's iterator cannot be the judge of
// truncated chunks: where the last bits that it asks for straddle the end of its
// buffer, it goes on with zeros.
type slowBits struct {
	data  []byte
	at    int
	ended bool
}

func (b *slowBits) read(n int) (v uint64) {
	for range n {
		bit := byte(0)
		if b.at/8 < len(b.data) {
			bit = b.data[b.at/8] >> (7 - b.at%8) & 1
		} else {
			b.ended = true
		}
		v = v<<1 | uint64(bit)
		b.at++
	}
	return v
}

func (b *slowBits) uvarint() (v uint64, s abi.Status) {
	for i := range 11 {
		c := b.read(8)
		switch {
		case b.ended:
			return 0, truncated
		case i == 10 || i == 9 && c > 1 && c < 128:
			return 0, badNumber
		}
		v |= c & 127 << (7 * i)
		if c < 128 {
			return v, 0
		}
	}
	return 0, badNumber
}

// ones counts ones up to a zero, at most n.
func (b *slowBits) ones(n int) int {
	for i := range n {
		if b.read(1) == 0 {
			return i
		}
	}
	return n
}

// slowDecode decodes an XOR chunk as its format is described, and says what is
// wrong with it.
func slowDecode(chunk []byte) (ts []int64, vs []float64, s abi.Status) {
	b := &slowBits{data: chunk, at: 16}
	n := int(chunk[0])<<8 | int(chunk[1])
	if n == 0 {
		return nil, nil, 0
	}
	zigzag, s := b.uvarint()
	if s != 0 {
		return nil, nil, s
	}
	v := b.read(64)
	if b.ended {
		return nil, nil, truncated
	}
	t := int64(zigzag>>1) ^ -int64(zigzag&1)
	delta, lead, size := int64(0), 0, 64
	for i := 0; ; i++ {
		ts, vs = append(ts, t), append(vs, math.Float64frombits(v))
		if i == n-1 {
			if !slices.IsSorted(ts) {
				s = backwards
			}
			return ts, vs, s
		}
		if i == 0 {
			d, s := b.uvarint()
			if s != 0 {
				return ts, vs, s
			}
			delta = int64(d)
		} else {
			delta += b.change()
		}
		if b.ended {
			return ts, vs, truncated
		}
		if delta <= 0 {
			return ts, vs, backwards
		}
		t += delta
		switch b.ones(2) {
		case 2:
			lead = int(b.read(5))
			if size = int(b.read(6)); size == 0 {
				size = 64
			}
			fallthrough
		case 1:
			if diff := b.read(size); lead+size <= 64 {
				v ^= diff << (64 - lead - size)
			}
		}
		if b.ended {
			return ts, vs, truncated
		}
	}
}

func (b *slowBits) change() int64 {
	size := []int{0, 14, 17, 20, 64}[b.ones(4)]
	v := int64(b.read(size))
	if size > 0 && size < 64 && v > 1<<(size-1) {
		v -= 1 << size
	}
	return v
}
