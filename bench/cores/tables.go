package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
)

// tables writes all tables for which there is something.
func (r *result) tables(w io.Writer) error {
	var b strings.Builder
	r.header(&b)
	if cores := r.cores(promwarp, ""); len(cores) > 0 {
		r.summary(&b, cores)
		r.growth(&b, cores)
		r.each(&b, cores)
	}
	r.compressed(&b)
	r.times(&b)
	for _, wrong := range r.Wrong {
		b.WriteString("\nWRONG: " + wrong + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *result) header(b *strings.Builder) {
	s := r.Setup
	fmt.Fprintf(b, "\n%s, %d cores (%s), %s, Prometheus %s, VictoriaMetrics %s, %s. Medians of at most %d rounds, ms.\n",
		s.Processor, s.Cores, strings.Trim(fmt.Sprint(s.Order), "[]"), s.Date, s.Prometheus, s.VictoriaMetrics, s.Go, s.Rounds)
	if s.Work {
		b.WriteString("Times are those that the server asked has run on cores.\n")
	}
	for _, jitter := range slices.Sorted(maps.Keys(r.Data)) {
		d := r.Data[jitter]
		fmt.Fprintf(b, "Data, times differ: %s: %d series, %d samples.\n", jitter, d.Series, d.Samples)
	}
}

// cores are the numbers of cores on which the peer was asked.
func (r *result) cores(peer, variant string) []int {
	seen := map[int]bool{}
	for _, m := range r.Measurements {
		if m.Peer == peer && m.Variant == variant && slices.ContainsFunc(queries.All, func(q queries.Query) bool { return q.Name == m.Query }) {
			seen[m.Cores] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// ratios are the times of one over those of another, of the comparison's queries that both have.
type ratios struct {
	mean, least, most float64
	leastOf, mostOf   string
	n                 int
	base, over        float64 // geometric means, ms
}

func (r *result) compare(base, over key) ratios {
	var all, bases, overs []float64
	x := ratios{least: math.Inf(1)}
	for _, q := range queries.All {
		base.Query, over.Query = q.Name, q.Name
		a, b := r.get(base), r.get(over)
		if a <= 0 || b <= 0 {
			continue
		}
		if a/b < x.least {
			x.least, x.leastOf = a/b, q.Name
		}
		if a/b > x.most {
			x.most, x.mostOf = a/b, q.Name
		}
		all, bases, overs = append(all, a/b), append(bases, a), append(overs, b)
	}
	x.n, x.mean, x.base, x.over = len(all), report.GeometricMean(all), report.GeometricMean(bases), report.GeometricMean(overs)
	return x
}

// summary is a row a number of cores.
func (r *result) summary(b *strings.Builder, cores []int) {
	b.WriteString("\nGeometric means; efficiency is the time on the fewest cores over that on more, per core.\n\n")
	rows := [][]string{{"cores", "queries", "promwarp ms", "efficiency", "VictoriaMetrics ms", "efficiency", "VM over promwarp", "least", "Prometheus over promwarp", "least", "promwarp MiB", "VM MiB"}}
	for _, n := range cores {
		p, vm := key{Peer: promwarp, Cores: n}, key{Peer: victoriaMetrics, Cores: n}
		few, fewVM := key{Peer: promwarp, Cores: cores[0]}, key{Peer: victoriaMetrics, Cores: cores[0]}
		to := r.compare(vm, p)
		row := []string{fmt.Sprint(n), fmt.Sprint(to.n), ms(to.over), share(r.compare(few, p), cores[0], n), ms(to.base), share(r.compare(fewVM, vm), cores[0], n), factor(to.mean), of(to.least, to.leastOf, to.n)}
		if alone := r.compare(key{Peer: prometheus, Cores: n}, p); alone.n > 0 {
			row = append(row, fmt.Sprintf("%s of %d", factor(alone.mean), alone.n), of(alone.least, alone.leastOf, alone.n))
		} else {
			row = append(row, "", "")
		}
		rows = append(rows, append(row, r.peak(promwarp, n), r.peak(victoriaMetrics, n)))
	}
	report.Markdown(b, rows, 0)
}

func (r *result) peak(peer string, n int) string {
	return fmt.Sprintf("%.0f", float64(r.Peaks[fmt.Sprintf("%s on %d", peer, n)])/(1<<20))
}

// growth says how many times as fast the most cores are as two, or as the fewest.
func (r *result) growth(b *strings.Builder, cores []int) {
	few, most := cores[0], cores[len(cores)-1]
	if slices.Contains(cores, 2) {
		few = 2
	}
	if few == most {
		return
	}
	fmt.Fprintf(b, "\nOn %d cores as many times as fast as on %d:\n\n", most, few)
	for _, peer := range []string{promwarp, victoriaMetrics} {
		x := r.compare(key{Peer: peer, Cores: few}, key{Peer: peer, Cores: most})
		fmt.Fprintf(b, "- %s: geometric mean %s of %d queries, least %s, most %s\n", peer, factor(x.mean), x.n, of(x.least, x.leastOf, x.n), of(x.most, x.mostOf, x.n))
	}
	for _, q := range own {
		a, c := r.get(key{q.Name, promwarp, few, ""}), r.get(key{q.Name, promwarp, most, ""})
		if a > 0 && c > 0 {
			fmt.Fprintf(b, "- promwarp, %s, `%s`: %s\n", q.Name, q.Expr, factor(a/c))
		}
	}
}

// each is a row a query.
func (r *result) each(b *strings.Builder, cores []int) {
	head := []string{"query", "points"}
	for _, peer := range []string{"promwarp", "VM"} {
		for _, n := range cores {
			head = append(head, fmt.Sprintf("%s %d", peer, n))
		}
	}
	last := cores[len(cores)-1]
	rows := [][]string{append(head, fmt.Sprintf("VM over promwarp, %d", last))}
	for _, q := range everything {
		row := []string{"`" + q.Name + "`", fmt.Sprint(r.Queries[q.Name].Points)}
		some := false
		for _, peer := range []string{promwarp, victoriaMetrics} {
			for _, n := range cores {
				t := r.get(key{q.Name, peer, n, ""})
				some = some || t > 0
				row = append(row, ms(t))
			}
		}
		if some {
			rows = append(rows, append(row, over(r.get(key{q.Name, victoriaMetrics, last, ""}), r.get(key{q.Name, promwarp, last, ""}))))
		}
	}
	b.WriteByte('\n')
	report.Markdown(b, rows, 1)
}

// compressed is a row a long answer and number of cores.
func (r *result) compressed(b *strings.Builder) {
	rows := [][]string{{"query", "points", "cores", "promwarp", "gzip", "gzip over plain", "VM", "gzip", "Prometheus", "gzip", "VM over promwarp, gzip", "Prometheus over promwarp, gzip"}}
	for _, q := range long {
		for n := 1; n <= r.Setup.Cores; n++ {
			t := func(peer, variant string) float64 { return r.get(key{q.Name, peer, n, variant}) }
			if t(promwarp, "gzip") == 0 {
				continue
			}
			rows = append(rows, []string{
				"`" + q.Name + "`", fmt.Sprint(r.Queries[q.Name].Points), fmt.Sprint(n), ms(t(promwarp, "")), ms(t(promwarp, "gzip")), over(t(promwarp, "gzip"), t(promwarp, "")),
				ms(t(victoriaMetrics, "")), ms(t(victoriaMetrics, "gzip")), ms(t(prometheus, "")), ms(t(prometheus, "gzip")),
				over(t(victoriaMetrics, "gzip"), t(promwarp, "gzip")), over(t(prometheus, "gzip"), t(promwarp, "gzip")),
			})
		}
	}
	if len(rows) > 1 {
		b.WriteString("\nAnswers as they are and compressed:\n\n")
		report.Markdown(b, rows, 1)
	}
}

// times compares series with times of their own with shared times.
func (r *result) times(b *strings.Builder) {
	for _, n := range r.cores(promwarp, "own") {
		x := r.compare(key{Peer: promwarp, Cores: n, Variant: "own"}, key{Peer: promwarp, Cores: n, Variant: "shared"})
		fmt.Fprintf(b, "\nSeries with times of their own, %d cores: geometric mean %s ms, shared times %s ms; %s times as long, geometric mean of %d queries; most %s\n",
			n, ms(x.base), ms(x.over), factor(x.mean), x.n, of(x.most, x.mostOf, x.n))
		rows := [][]string{{"query", "shared", "own", "own over shared"}}
		for _, q := range everything {
			shared, its := r.get(key{q.Name, promwarp, n, "shared"}), r.get(key{q.Name, promwarp, n, "own"})
			if shared > 0 && its > 0 {
				rows = append(rows, []string{"`" + q.Name + "`", ms(shared), ms(its), over(its, shared)})
			}
		}
		b.WriteByte('\n')
		report.Markdown(b, rows, 1)
	}
}

// ms writes a time, nothing for none.
func ms(x float64) string {
	if x <= 0 || math.IsNaN(x) {
		return ""
	}
	return fmt.Sprintf("%.1f", x)
}

// factor writes a ratio, nothing for none.
func factor(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) || x <= 0 {
		return ""
	}
	return report.Times(x) + "×"
}

func over(a, b float64) string {
	if b <= 0 {
		return ""
	}
	return factor(a / b)
}

// of writes a ratio and the query that it is of.
func of(x float64, name string, n int) string {
	if n == 0 {
		return ""
	}
	return factor(x) + " (" + name + ")"
}

// share is how efficient n cores are beside few.
func share(x ratios, few, n int) string {
	if x.n == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", x.mean*float64(few)/float64(n))
}
