package gpuexec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/kernels/abi"
)

// sum is a sum and what its additions lost, as group_sum keeps them.
type sum struct{ sum, lost float64 }

func (s sum) add(v float64) sum {
	t := s.sum + v
	switch {
	case math.IsInf(t, 0):
		s.lost = 0
	case math.Abs(s.sum) >= math.Abs(v):
		s.lost += (s.sum - t) + v
	default:
		s.lost += (v - t) + s.sum
	}
	s.sum = t
	return s
}

func (s sum) join(o sum) sum {
	s = s.add(o.sum)
	s.lost += o.lost
	return s
}

// TestGroupSumManyGroups: more groups than a grid has rows.
func TestGroupSumManyGroups(t *testing.T) {
	defer func(n uint32) { maxGridY = n }(maxGridY)
	maxGridY = 7
	TestGroupSum(t)
}

// TestGroupSum compares with the same tree in Go bit by bit, and with the plain
// sum: the two must be near each other.
func TestGroupSum(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	onBench(t, func(b *bench) {
		for _, shape := range []struct{ series, steps, groups int }{{1, 1, 1}, {7, 33, 2}, {100, 64, 5}, {333, 100, 40}, {20, 31, 1000}} {
			words := (shape.steps + 31) / 32
			values := make([]float64, shape.series*shape.steps)
			present := make([]uint32, shape.series*words)
			for i := range values {
				values[i] = r.NormFloat64() * math.Pow(10, float64(r.IntN(12)))
				if r.IntN(500) == 0 {
					values[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)]
				}
			}
			for i := range present {
				present[i] = r.Uint32() | r.Uint32()
			}
			lists := make([][]uint32, shape.groups)
			for s := range shape.series {
				g := r.IntN(shape.groups)
				lists[g] = append(lists[g], uint32(s))
			}
			first, members := []uint32{0}, []uint32{}
			for _, l := range lists {
				members = append(members, l...)
				first = append(first, uint32(len(members)))
			}
			in := Grid{put(b, values), put(b, present), uint32(shape.steps)}
			groups := Groups{put(b, members), put(b, first), uint32(shape.groups)}
			n := uint64(shape.groups * shape.steps)
			sums, counts := space[float64](b, n), space[uint32](b, n)
			require.NoError(t, b.groupSum(in, groups, sums, counts))
			gotSums, gotCounts := get[float64](b, sums, n), get[uint32](b, counts, n)
			for g, l := range lists {
				for k := range shape.steps {
					var parts [abi.GroupSumParts]sum
					plain, size, count := 0.0, 0.0, uint32(0)
					for i, s := range l {
						if present[int(s)*words+k/32]>>(k%32)&1 == 1 {
							v := values[int(s)*shape.steps+k]
							parts[i%len(parts)] = parts[i%len(parts)].add(v)
							plain, size, count = plain+v, size+math.Abs(v), count+1
						}
					}
					for half := len(parts) / 2; half > 0; half /= 2 {
						for y := range half {
							parts[y] = parts[y].join(parts[y+half])
						}
					}
					want, got := parts[0].sum+parts[0].lost, gotSums[g*shape.steps+k]
					finite := !math.IsNaN(plain) && !math.IsInf(plain, 0)
					if bitsOf(want) != bitsOf(got) || count != gotCounts[g*shape.steps+k] || finite && math.Abs(plain-got) > 1e-12*size {
						t.Fatalf("group %d step %d: sum %v of %d values, not %v of %d; plainly %v",
							g, k, got, gotCounts[g*shape.steps+k], want, count, plain)
					}
				}
			}
			b.free(in.Values, in.Present, groups.Members, groups.First, sums, counts)
		}
	})
}
