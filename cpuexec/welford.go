package cpuexec

import "math"

// welford is the state of Prometheus's variance: the mean so far and the sum of
// squared deviations, both compensated.
type welford struct{ mean, cMean, aux, cAux float64 }

// add adds the n-th value. The sums must not overflow: see twoSum.
func (s welford) add(v, n float64) welford {
	delta := v - (s.mean + s.cMean)
	s.mean, s.cMean = twoSum(s.mean, delta/n, s.cMean)
	s.aux, s.cAux = twoSum(s.aux, float64(delta*(v-(s.mean+s.cMean))), s.cAux)
	return s
}

// variance is that of the n values that were added.
func (s welford) variance(n float64) float64 { return (s.aux + s.cAux) / n }

// variancesLater computes the variances of single windows by Prometheus's
// operations, four windows abreast: each operation waits for the one before it
// in the same window, and a processor does others meanwhile.
type variancesLater struct {
	vs    []float64
	b     *bounds
	root  bool
	out   row
	steps [4]int
	n     int
}

// add puts off step k until four are there.
func (l *variancesLater) add(k int) {
	l.steps[l.n] = k
	if l.n++; l.n == len(l.steps) {
		l.flush()
	}
}

// flush computes what has been put off.
func (l *variancesLater) flush() {
	if l.n == 0 {
		return
	}
	var w [4][]float64
	common := math.MaxInt
	for i := range w {
		k := l.steps[min(i, l.n-1)]
		w[i] = l.vs[l.b.lo[k]:l.b.hi[k]]
		common = min(common, len(w[i]))
	}
	var s0, s1, s2, s3 welford
	w0, w1, w2, w3 := w[0][:common], w[1][:common], w[2][:common], w[3][:common]
	for i := range common {
		n := float64(i + 1)
		s0, s1, s2, s3 = s0.add(w0[i], n), s1.add(w1[i], n), s2.add(w2[i], n), s3.add(w3[i], n)
	}
	all := [4]welford{s0, s1, s2, s3}
	for i, s := range all[:l.n] {
		for k, v := range w[i][common:] {
			s = s.add(v, float64(common+k+1))
		}
		v := s.variance(float64(len(w[i])))
		if l.root {
			v = math.Sqrt(v)
		}
		l.out.set(l.steps[i], v)
	}
	l.n = 0
}
