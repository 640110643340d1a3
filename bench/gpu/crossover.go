package main

import (
	"context"
	"fmt"
	"math"

	"github.com/promwarp/promwarp/bench/report"
)

// sizes are series and samples of each, about √10 times as many samples from one to the next.
var sizes = [][2]int{
	{10, 100}, {32, 100}, {100, 100}, {32, 1000}, {100, 1000}, {320, 1000}, {1000, 1000}, {320, 10_000},
	{1000, 10_000}, {3200, 10_000}, {10_000, 10_000}, {32_000, 10_000}, {100_000, 10_000},
}

// crossed is the query that is measured at every size.
const crossed = "sum(rate(m_total[5m]))"

// crossover measures from how many samples on a GPU is faster than the cores of its machine: the same
// query at a step of a minute over every size up to the most samples. The cores decode the chunks each
// time.
func (r *rig) crossover(ctx context.Context, most float64, save func([]Row)) error {
	var rows []Row
	for _, s := range sizes {
		if float64(s[0])*float64(s[1]) <= most {
			rows = append(rows, Row{Name: fmt.Sprintf("%d of %d samples", s[0], s[1])})
		}
	}
	return r.each(ctx, rows, func(ctx context.Context, i int, row *Row) error {
		at := *r
		at.series, at.samples = sizes[i][0], sizes[i][1]
		e := at.engines()
		defer e.close()
		all, err := e.data.metrics([]string{counters}, at.series)
		if err != nil {
			return err
		}
		return e.measure(ctx, row, crossed, all)
	}, save)
}

// crossing is the number of samples from which on device is less than cores.
func crossing(rows []Row, device func(*Row) float64) float64 {
	// How many times as long the device takes, as a logarithm.
	gap := func(p *Row) float64 { return math.Log(device(p) / p.Cores) }
	n := len(rows)
	for n > 0 && gap(&rows[n-1]) < 0 {
		n--
	}
	if n == 0 || n == len(rows) {
		return 0
	}
	a, b := &rows[n-1], &rows[n]
	part := gap(a) / (gap(a) - gap(b))
	return math.Exp(math.Log(float64(a.Samples)) + part*math.Log(float64(b.Samples)/float64(a.Samples)))
}

// crossoverTable is the figures for reading.
func crossoverTable(rows []Row) *report.Table {
	from := func(device func(*Row) float64) string {
		if n := crossing(rows, device); n > 0 {
			return fmt.Sprintf("%.2g million", n/1e6)
		}
		return "no number of"
	}
	return tableOf(fmt.Sprintf("%s, ms. A GPU is faster from %s samples on, %s where chunks are resident:", crossed,
		from(func(p *Row) float64 { return p.NotResident }), from(func(p *Row) float64 { return p.Resident })), rows)
}
