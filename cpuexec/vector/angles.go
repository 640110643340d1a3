package vector

import (
	"math"
	"math/bits"
	"runtime"
)

// This file has sine, cosine and tangent with the bits of Go's. They make the same operations in the
// same order, but without branches on the octant, which a core guesses wrong half the time. Elsewhere
// than on amd64 Go's fuse multiplications with additions, and are called.

const isRounded = runtime.GOARCH == "amd64"

// mostReduced bounds what fourOverPi has digits for.
const mostReduced = 1 << 55

func sin(x float64) float64 {
	if abs := math.Abs(x); isRounded && abs < mostReduced {
		j, rest := octant(abs)
		return sine(j, rest, math.Float64bits(x)>>63)
	}
	return math.Sin(x)
}

func cos(x float64) float64 {
	if abs := math.Abs(x); isRounded && abs < mostReduced {
		j, rest := octant(abs)
		return sine(j+2, rest, 0)
	}
	return math.Cos(x)
}

func tan(x float64) float64 {
	if abs := math.Abs(x); isRounded && abs < mostReduced {
		j, rest := octant(abs)
		return tangent(j, rest, math.Float64bits(x)>>63)
	}
	return math.Tan(x)
}

// fourOverPi are binary digits of 4/pi: the integer part, then 64 digits each.
var fourOverPi = [4]uint64{1, 0x45f306dc9c882a53, 0xf84eafa3ea69bb81, 0xb6c52b3278872083}

// octant divides x, from 0 to below mostReduced, by pi/4: an even number, of which the last three bits
// count, and the rest of x.
func octant(x float64) (j uint64, rest float64) {
	if x < 1<<29 {
		const a, b, c = 7.85398125648498535156e-1, 3.77489470793079817668e-8, 2.69515142907905952645e-15 // pi/4
		j = uint64(x * (4 / math.Pi))
		j += j & 1
		y := float64(j)
		return j, ((x - float64(y*a)) - float64(y*b)) - float64(y*c)
	}
	// Payne and Hanek's: x = m × 2^e, of whose product with 4/pi 128 digits are made.
	m, e := math.Float64bits(x)&(1<<52-1)|1<<52, math.Float64bits(x)>>52-1075
	left, right, digits := (e+61)&63, (3-e)&63, &fourOverPi
	low, _ := bits.Mul64(digits[2]<<left|digits[3]>>right, m)
	hi, lo := bits.Mul64(digits[1]<<left|digits[2]>>right, m)
	lo, carry := bits.Add64(lo, low, 0)
	hi += (digits[0]<<left|digits[1]>>right)*m + carry
	j = hi >> 61
	hi = hi<<3 | lo>>61
	zeros := uint64(bits.LeadingZeros64(hi)) + 1
	fraction := hi<<(zeros&63) | lo>>((64-zeros)&63)
	odd := j & 1
	return j + odd, (math.Float64frombits(fraction>>12|(1023-zeros)<<52) - float64(odd)) * (math.Pi / 4)
}

// series are the coefficients of the sine and of the cosine.
var series = [2][6]float64{{
	1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
	-1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1,
}, {
	-1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7,
	2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2,
}}

// sine is that of z more than an even number of octants, with its sign changed where minus is 1.
func sine(j uint64, z float64, minus uint64) float64 {
	which, zz := j>>1&1, float64(z*z)
	c, first, factor := &series[which], choose(which, 1.0-float64(0.5*zz), z), choose(which, zz, z)
	p := float64(float64(float64(float64(float64(c[0]*zz)+c[1])*zz)+c[2])*zz) + c[3]
	p = float64(float64(float64(p*zz)+c[4])*zz) + c[5]
	y := first + float64(factor*zz*p)
	return math.Float64frombits(math.Float64bits(y) ^ (minus^j>>2)<<63)
}

// tangent is sine of the tangent.
func tangent(j uint64, z float64, minus uint64) float64 {
	y, zz := z, float64(z*z)
	if zz > 1e-14 {
		p := float64((float64(-1.30936939181383777646e4*zz)+1.15351664838587416140e6)*zz) - 1.79565251976484877988e7
		q := float64((float64((zz+1.36812963470692954678e4)*zz)-1.32089234440210967447e6)*zz) + 2.50083801823357915839e7
		y = z + float64(z*(zz*p/(float64(q*zz)-5.38695755929454629881e7)))
	}
	return math.Float64frombits(math.Float64bits(choose(j>>1&1, -1/y, y)) ^ minus<<63)
}

// choose is a where which is 1, and b where it is 0.
func choose(which uint64, a, b float64) float64 {
	return math.Float64frombits(math.Float64bits(b) ^ -which&(math.Float64bits(a)^math.Float64bits(b)))
}
