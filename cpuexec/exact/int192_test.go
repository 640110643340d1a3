package exact

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestInt192(t *testing.T) {
	number := func(w Int192) *big.Int {
		b := new(big.Int).SetUint64(w.w2)
		b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(w.w1))
		b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(w.w0))
		if w.w2>>63 != 0 {
			b.Sub(b, new(big.Int).Lsh(big.NewInt(1), 192))
		}
		return b
	}
	float := func(b *big.Int) float64 {
		f, _ := new(big.Float).SetInt(b).Float64()
		return f
	}
	rapid.Check(t, func(t *rapid.T) {
		x, y := rapid.Int64().Draw(t, "x"), rapid.Int64().Draw(t, "y")
		n := rapid.IntRange(0, 1<<31).Draw(t, "n")
		a := Int192{rapid.Uint64().Draw(t, "w0"), rapid.Uint64().Draw(t, "w1"), rapid.Uint64().Draw(t, "w2")}
		bx, by := big.NewInt(x), big.NewInt(y)
		require.Equal(t, new(big.Int).Mul(bx, by).String(), number(Product(x, y)).String())
		require.Equal(t, new(big.Int).Add(new(big.Int).Mul(bx, by), bx).String(), number(Product(x, y).Plus(x)).String())
		require.Equal(t, new(big.Int).Add(new(big.Int).Mul(bx, by), bx).String(), number(Product(x, y).Add(Int192{}.Plus(x))).String())
		require.Equal(t, new(big.Int).Sub(new(big.Int).Mul(bx, by), bx).String(), number(Product(x, y).Sub(Int192{}.Plus(x))).String())
		require.Equal(t, new(big.Int).Mul(new(big.Int).Mul(bx, by), big.NewInt(int64(n))).String(), number(Product(x, y).Times(n)).String())
		small := Int192{}.Plus(x >> 2).Times(n)
		require.Equal(t, new(big.Int).Mul(number(small), number(small)).String(), number(small.Mul(small)).String())
		require.Equal(t, new(big.Int).Mul(number(small), by).String(), number(small.Mul(Int192{}.Plus(y))).String())
		for shift := 0; shift < 192; shift += 7 {
			v := number(a)
			v.Rsh(v, uint(shift))
			s := fromBig(v)
			require.Equal(t, v.String(), number(s).String())
			require.Equal(t, float(v), s.Float(), v)
		}
	})
}

// fromBig is b, which is within 192 bits, as an Int192.
func fromBig(b *big.Int) (w Int192) {
	mask := new(big.Int).SetUint64(math.MaxUint64)
	for i, word := range []*uint64{&w.w0, &w.w1, &w.w2} {
		part := new(big.Int).Rsh(b, uint(64*i)) // towards minus infinity, as in two's complement
		*word = part.And(part, mask).Uint64()
	}
	return w
}
