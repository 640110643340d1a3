package dataset

import "math"

// rng is SplitMix64: one multiplication chain a number, and every seed is good.
type rng uint64

// newRNG returns a generator for one named thing out of a seed.
func newRNG(seed uint64, name string, number int) rng {
	h := seed ^ 0xcbf29ce484222325
	for i := 0; i < len(name); i++ {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	r := rng(h + uint64(number)*0x9e3779b97f4a7c15)
	r.next()
	return r
}

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// float returns a number in [0, 1).
func (r *rng) float() float64 { return float64(r.next()>>11) / (1 << 53) }

// between returns a number in [lo, hi).
func (r *rng) between(lo, hi float64) float64 { return lo + (hi-lo)*r.float() }

// spread returns a number in [lo, hi), its logarithm evenly distributed.
func (r *rng) spread(lo, hi float64) float64 { return lo * math.Pow(hi/lo, r.float()) }

// exponential returns a number above 0 with the given mean.
func (r *rng) exponential(mean float64) float64 { return -mean * math.Log(1-r.float()) }

// intn returns a number in [0, n).
func (r *rng) intn(n int) int { return int(r.next() % uint64(n)) }
