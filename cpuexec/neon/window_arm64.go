package neon

// All of these do so for n steps, a positive multiple of 4. Where they return a number, it is that of
// the steps before the four of which one is not as it must be.

// PackedIncreases fills out with the increases between packed samples lo[k] and hi[k]-1 times
// factors[k], as long as there are two samples and the first is beyond near[k] times the increase,
// and tiny.
//
//go:noescape
func PackedIncreases(out *float64, units *uint32, lo, hi *int32, factors, near *float64, n int, base, unit, tiny float64) int

// FloatIncreases is PackedIncreases for samples that are not packed.
//
//go:noescape
func FloatIncreases(out, vs *float64, lo, hi *int32, factors, near *float64, n int, tiny float64) int

// PackedDeltas fills out with the differences between packed samples lo[k] and hi[k]-1 times
// factors[k], as long as there are two samples.
//
//go:noescape
func PackedDeltas(out *float64, units *uint32, lo, hi *int32, factors *float64, n int, base, unit float64) int

// FloatDeltas is PackedDeltas for samples that are not packed.
//
//go:noescape
func FloatDeltas(out, vs *float64, lo, hi *int32, factors *float64, n int) int

// PackedLast fills out with packed samples hi[k]-1, as long as there are such.
//
//go:noescape
func PackedLast(out *float64, units *uint32, hi *int32, n int, base, unit float64) int

// PackedPairs fills out with the differences between packed samples hi[k]-2 and hi[k]-1, divided by
// seconds[k], as long as none is negative. Each hi[k] must be 2 or more.
//
//go:noescape
func PackedPairs(out *float64, units *uint32, hi *int32, seconds *float64, n int, base, unit float64) int

// Extrapolations makes factors and nears of how many ms the last and the first sample of each window
// come after its ends, as long as there are two samples and neither end is extrapolated by half of
// a distance alone. c are the ms of a window, 1000, 1/1000, the distances that an end may be away,
// what divides the factors, and 1. times and plus make the nears a bit greater than they are.
//
//go:noescape
func Extrapolations(factors, nears *float64, lo, hi *int32, n int, c *[6]float64, times, plus float64) int

// Spread returns the least and the most samples of windows, and how many are in all of them. n is a
// multiple of 8.
//
//go:noescape
func Spread(lo, hi *int32, n int) (least, most int32, total int64)

// AddSamples adds used, below 1<<31, times the samples of each window to all, and used times those
// behind seen[k] to fresh.
//
//go:noescape
func AddSamples(all, fresh *int64, lo, hi, seen *int32, n int, used int64)
