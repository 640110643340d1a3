package compress

import (
	"encoding/binary"
	"hash/crc32"
)

// checksum is that of blocks behind each other, made from those of the blocks: the CRC-32 that
// gzip uses, and the size.
type checksum struct {
	sum  uint32
	size uint64
}

// add adds a block. As polynomials over GF(2), the checksum of two blocks is that of the first,
// times x to the number of the second's bits, plus that of the second, modulo the polynomial
// crc32.IEEE.
func (c *checksum) add(sum uint32, size int) {
	c.sum = times(c.sum, bytesPower(size)) ^ sum
	c.size += uint64(size)
}

// trailer is what ends a gzip stream.
func (c *checksum) trailer() []byte {
	b := binary.LittleEndian.AppendUint32(nil, c.sum)
	return binary.LittleEndian.AppendUint32(b, uint32(c.size)) // modulo 2^32, as gzip has it
}

// times multiplies two polynomials. The highest bit is the coefficient of 1, the next that of x.
func times(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a>>31 == 1 {
			product ^= b
		}
		b = b>>1 ^ crc32.IEEE&-(b&1) // times x
	}
	return product
}

// squares are x^8, x^16, x^32, …, each the square of the one before.
var squares = func() (s [48]uint32) {
	s[0] = 1 << (31 - 8)
	for i := range s[1:] {
		s[i+1] = times(s[i], s[i])
	}
	return s
}()

// bytesPower is x to the power of 8n.
func bytesPower(n int) uint32 {
	power := uint32(1 << 31)
	for i := 0; n != 0; i, n = i+1, n>>1 {
		if n&1 == 1 {
			power = times(power, squares[i])
		}
	}
	return power
}
