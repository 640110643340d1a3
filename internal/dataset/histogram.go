package dataset

import "math"

// bounds are the upper bounds of the latency histogram's buckets in seconds.
var bounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, math.Inf(1)}

// histogram is a classic histogram: a counter for each bucket and for count and
// sum. Latencies are exponentially distributed with a floor.
type histogram struct {
	buckets    []Series
	sum, count Series
	r          rng
	rate       float64 // observations a second on average
	mean       float64 // latency in seconds
	surge      float64 // the factor on latency during incidents

	n       int64
	total   float64
	reached []float64 // expected observations by bucket

	share, shareHot []float64 // of observations within the bucket's bound
	cols            [][]float64
	t               []int64
}

func newHistogram(r rng, rate, mean, surge float64) *histogram {
	h := &histogram{r: r, rate: rate, mean: mean, surge: surge}
	h.buckets = make([]Series, len(bounds))
	h.reached = make([]float64, len(bounds))
	h.cols = make([][]float64, len(bounds)+2)
	h.share, h.shareHot = distribution(mean), distribution(mean*surge)
	return h
}

// distribution returns the share of observations at or below each bound.
func distribution(mean float64) []float64 {
	const floor = 0.002
	d := make([]float64, len(bounds))
	for i, b := range bounds {
		d[i] = 1 - math.Exp(-(b-floor)/mean)
	}
	return d
}

// window implements family.
func (h *histogram) window(w *scrapes, b *buffer, emit Emit) error {
	nb := len(bounds)
	h.t = h.t[:0]
	for c := range h.cols {
		h.cols[c] = h.cols[c][:0]
	}
	for i, t := range w.t {
		if w.flags[i] != 0 {
			if b.skip(w, i) {
				if len(b.t) > 0 { // the stale marker is for every series
					b.clear()
					h.t = append(h.t, t)
					for c := range h.cols {
						h.cols[c] = append(h.cols[c], staleMarker)
					}
				}
				continue
			}
			h.restart(b)
		}
		share, mean := h.share, h.mean
		if w.hot[i] {
			share, mean = h.shareHot, h.mean*h.surge
		}
		n := math.Floor(h.rate*w.load[i]*w.dt[i]*(0.5+h.r.float()) + 0.5)
		h.n += int64(n)
		h.total += n * mean * (0.9 + 0.2*h.r.float())
		h.t = append(h.t, t)
		for c, s := range share {
			h.reached[c] += n * s
			h.cols[c] = append(h.cols[c], math.Floor(h.reached[c]))
		}
		h.cols[nb-1][len(h.t)-1] = float64(h.n)
		h.cols[nb] = append(h.cols[nb], h.total)
		h.cols[nb+1] = append(h.cols[nb+1], float64(h.n))
	}
	if len(h.t) == 0 {
		return nil
	}
	for c := range h.buckets {
		if err := emit(&h.buckets[c], h.t, h.cols[c]); err != nil {
			return err
		}
	}
	if err := emit(&h.sum, h.t, h.cols[nb]); err != nil {
		return err
	}
	return emit(&h.count, h.t, h.cols[nb+1])
}

func (h *histogram) restart(b *buffer) {
	for _, r := range h.reached {
		if r >= 1 {
			b.resets++
		}
	}
	if h.n > 0 {
		b.resets += 2
	}
	h.n, h.total = 0, 0
	clear(h.reached)
}
