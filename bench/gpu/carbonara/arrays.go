package carbonara

import "github.com/promwarp/promwarp/internal/parallel"

// arrayBlock is the number of means that are made at once, so that they stay in a
// core's cache.
const arrayBlock = 4096

// means makes means of every ratio values, an array at a time.
func means(values []float32, ratio int, out []float32) {
	for len(out) > 0 {
		n := min(len(out), arrayBlock)
		o := out[:n]
		for i := range o {
			o[i] = values[i*ratio]
		}
		for j := 1; j < ratio; j++ {
			for i := range o {
				o[i] += values[i*ratio+j]
			}
		}
		for i := range o {
			o[i] /= float32(ratio)
		}
		values, out = values[n*ratio:], out[n:]
	}
}

// meansInParallel is means on all cores.
func meansInParallel(values []float32, ratio int, out []float32) {
	const piece = 16 * arrayBlock
	parallel.For((len(out)+piece-1)/piece, func(k int) {
		from, to := k*piece, min((k+1)*piece, len(out))
		means(values[from*ratio:to*ratio], ratio, out[from:to])
	})
}

// runMeans makes the mean of each run of samples whose time rounds to the same, an
// array at a time: round all times, find the changes, add up between them.
func runMeans(times []uint32, values []float32, interval uint32, out []float32) {
	const block = 1 << 14
	var rounded [block]uint32
	var starts []int
	for at := 0; at < len(times); {
		ts := times[at:min(at+block, len(times))]
		last := at+len(ts) == len(times)
		for i, t := range ts {
			rounded[i] = (t - 1) / interval
		}
		starts = append(starts[:0], 0)
		for i := 1; i < len(ts); i++ {
			if rounded[i] != rounded[i-1] {
				starts = append(starts, i)
			}
		}
		// The last run may go on in the next block, which begins with it.
		ends := starts[1:]
		if last {
			ends = append(starts, len(ts))[1:]
		}
		from := 0
		for _, to := range ends {
			sum := float32(0)
			for _, v := range values[at+from : at+to] {
				sum += v
			}
			out[rounded[from]] = sum / float32(to-from)
			from = to
		}
		if !last && from == 0 {
			panic("a run is longer than a block")
		}
		at += from
	}
}
