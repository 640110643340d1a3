package cpuexec

import (
	"math"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// variancesLater computes the variances of single windows by Prometheus's
// operations, four windows abreast: each operation waits for the one before it
// in the same window, and a processor does others meanwhile.
type variancesLater struct {
	vs    []float64
	b     *bounds
	root  bool
	out   dense.Row
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
	var s0, s1, s2, s3 exact.Welford
	w0, w1, w2, w3 := w[0][:common], w[1][:common], w[2][:common], w[3][:common]
	for i := range common {
		n := float64(i + 1)
		s0, s1, s2, s3 = s0.Add(w0[i], n), s1.Add(w1[i], n), s2.Add(w2[i], n), s3.Add(w3[i], n)
	}
	all := [4]exact.Welford{s0, s1, s2, s3}
	for i, s := range all[:l.n] {
		for k, v := range w[i][common:] {
			s = s.Add(v, float64(common+k+1))
		}
		v := s.Variance(float64(len(w[i])))
		if l.root {
			v = math.Sqrt(v)
		}
		l.out.Set(l.steps[i], v)
	}
	l.n = 0
}
