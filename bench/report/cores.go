package report

import (
	"fmt"
	"io"
	"math"
)

// OnCores is the contender that is a promwarp on so many cores, asked again.
func OnCores(n int) string { return fmt.Sprintf("promwarp on %d", n) }

// WriteCores writes how promwarp's time falls with cores: the geometric means of its times, and
// how efficient more cores are, which is the time on the first number of them over that on more,
// per core.
func (r *Result) WriteCores(w io.Writer, cores []int) error {
	if len(cores) == 0 {
		return nil
	}
	means, asked := make([]float64, len(cores)), 0
	for i := range r.Rows {
		timings := r.Rows[i].Timings
		if timings[OnCores(cores[0])].Median <= 0 {
			continue
		}
		asked++
		for k, n := range cores {
			means[k] += math.Log(timings[OnCores(n)].Median)
		}
	}
	if _, err := fmt.Fprint(w, "\n| cores | geometric mean, ms | efficiency |\n| ---: | ---: | ---: |\n"); err != nil || asked == 0 {
		return err
	}
	for k, n := range cores {
		means[k] = math.Exp(means[k] / float64(asked))
		if _, err := fmt.Fprintf(w, "| %d | %.1f | %.2f |\n", n, means[k], means[0]/means[k]*float64(cores[0])/float64(n)); err != nil {
			return err
		}
	}
	return nil
}
