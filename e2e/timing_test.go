package e2e

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// How long a heavy dashboard query takes Prometheus and promwarp, against targets.
func TestTiming(t *testing.T) {
	const (
		query       = `sum by (job) (rate(http_requests_total[5m]))`
		rounds      = 5
		firstTarget = 4
		againTarget = 10
	)
	if os.Getenv("E2E_TIMING") != "1" {
		t.Skip("times say something on an idle machine only: set E2E_TIMING=1 there")
	}
	up := upstream(t)
	form := up.grid.rangeForm(query)
	timed := func(p *process) (answer, time.Duration) {
		begin := time.Now()
		a := ask(t, p.url, rangePath, form)
		return a, time.Since(begin)
	}

	var direct, first, again []time.Duration
	want, _ := timed(up.process) // its blocks are in the page cache from now on
	require.Equal(t, http.StatusOK, want.code)
	for range rounds {
		_, d := timed(up.process)
		direct = append(direct, d)
		// A fresh process has nothing cached.
		func() {
			addr := mustFreeAddr(t)
			pw, err := start("promwarp", addr, promwarpBin, promwarpArgs(addr, up.url)...)
			require.NoError(t, err)
			defer func() { pw.kill(); pw.log.check(t, pw.name) }()
			require.NoError(t, pw.waitReady())
			a, d := timed(pw)
			requireSame(t, want, a, false, "first")
			first = append(first, d)
			a, d = timed(pw)
			requireSame(t, want, a, false, "repeated")
			again = append(again, d)
		}()
	}

	base := median(direct)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tmedian ms\tspeed-up\ttarget\t\n")
	row := func(name string, d []time.Duration, target string) float64 {
		speedUp := float64(base) / float64(median(d))
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%s\t\n", name, float64(median(d).Microseconds())/1000, speedUp, target)
		return speedUp
	}
	row("Prometheus", direct, "")
	firstUp := row("promwarp, first", first, fmt.Sprint(firstTarget))
	againUp := row("promwarp, repeated", again, fmt.Sprint(againTarget))
	require.NoError(t, w.Flush())
	t.Logf("%s, 24 h at a step of 1 m:\n%s", query, b.String())

	require.GreaterOrEqual(t, firstUp, float64(firstTarget), "speed-up of the first query")
	require.GreaterOrEqual(t, againUp, float64(againTarget), "speed-up of a repeated query")
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}
