package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/internal/dataset"
)

// TestMain lets the test program play a server: its last arguments are its name, what it answers at
// the ends of each query's range, and the file in which it notes its name when it is asked.
func TestMain(m *testing.M) {
	if os.Getenv("BENCH_TEST_SERVER") != "" {
		addr, own := "", os.Args[len(os.Args)-3:]
		for _, arg := range os.Args {
			if rest, ok := strings.CutPrefix(arg, "--web.listen-address="); ok {
				addr = rest
			}
		}
		_ = http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("query") == "" {
				return
			}
			f, err := os.OpenFile(own[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			fmt.Fprintln(f, own[0])
			if own[1] == "error" {
				http.Error(w, "too much", http.StatusUnprocessableEntity)
				return
			}
			points := fmt.Sprintf("[%s,%q]", r.FormValue("end"), own[1])
			if start := r.FormValue("start"); start != r.FormValue("end") {
				points = fmt.Sprintf("[%s,%q],", start, own[1]) + points
			}
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`, points)
		}))
	}
	os.Exit(m.Run())
}

// table lines up contenders that answer 1, or what answers says.
type table struct {
	*rig
	contenders []contender
	asked      string // file with the names of those that were asked, in order
}

func newTable(t *testing.T, rounds int, answers map[string]string) *table {
	t.Setenv("BENCH_TEST_SERVER", "yes")
	f := &table{rig: &rig{
		options: options{dir: t.TempDir(), match: regexp.MustCompile("")}, begin: time.Now(), progress: io.Discard, stage: &stage{},
		data: &samples{dir: t.TempDir(), Options: dataset.Options{Start: 0, End: 3600_000}, state: state{End: 3600}},
	}}
	f.asked = filepath.Join(f.dir, "asked")
	f.shown = f.result.Stage("dashboards")
	f.shown.Rounds = rounds
	path, err := os.Executable()
	require.NoError(t, err)
	start := func(name string) *peers.Process {
		value, ok := answers[name]
		if !ok {
			value = "1"
		}
		p, err := peers.StartPromwarp(t.Context(), peers.Program{Path: path}, name, value, f.asked)
		require.NoError(t, err)
		return p
	}
	serve := func(name string) *peers.Process {
		p, err := f.started(start(name), nil)
		require.NoError(t, err)
		return p
	}
	t.Cleanup(f.stop)
	f.source = serve("source")
	f.contenders = []contender{
		{names: []string{report.Prometheus}, server: serve(report.Prometheus), exact: true},
		{names: []string{report.PromwarpFirst, "second"}, exact: true, start: func(context.Context) (*peers.Process, error) { return start(report.PromwarpFirst), nil }},
		{names: []string{report.Promwarp}, server: serve(report.Promwarp), exact: true, warm: 2},
		{names: []string{report.VictoriaMetrics}, server: serve(report.VictoriaMetrics), other: true, warm: 1, more: url.Values{"nocache": {"1"}}},
	}
	return f
}

// ask has the table asked one query.
func (f *table) ask(t *testing.T) *report.Row {
	q := f.question(queries.Query{Name: "up", Expr: "up", Step: time.Minute})
	require.NoError(t, f.rig.ask(t.Context(), []question{q}, f.contenders))
	return f.shown.Row("up")
}

func (f *table) order(t *testing.T) []string {
	b, err := os.ReadFile(f.asked)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func TestTrialTakesTurns(t *testing.T) {
	f := newTable(t, 2, nil)
	row := f.ask(t)
	p, first, repeated, vm := report.Prometheus, report.PromwarpFirst, report.Promwarp, report.VictoriaMetrics
	require.Equal(t, []string{
		repeated, "source", repeated, vm, // before they are timed; the first answer is held against the right one
		p, first, first, repeated, vm,
		first, first, repeated, vm, p,
	}, f.order(t))
	require.Empty(t, row.Wrong+row.Other+row.Error)
	require.Equal(t, "same", row.Note)
	require.Equal(t, 1, row.Points)
	require.Len(t, row.Costs, 5)
	require.Len(t, row.Costs[repeated].All, 2)
	require.Len(t, row.Costs["second"].All, 2)
	require.Positive(t, row.Costs[p].Median)
	require.Positive(t, row.Costs[p].Sent)

	// What was measured is written.
	var r report.Result
	require.NoError(t, readJSON(filepath.Join(f.dir, resultFile), &r))
	require.Len(t, r.Stage("dashboards").Rows, 1)
}

func TestTrialKeepsToTheBudget(t *testing.T) {
	f := newTable(t, 100, nil)
	f.budget = -1
	require.Len(t, f.ask(t).Costs[report.Prometheus].All, 1)
}

func TestTrialFindsDifferences(t *testing.T) {
	for _, who := range []string{report.PromwarpFirst, report.Promwarp} {
		row := newTable(t, 1, map[string]string{who: "2"}).ask(t)
		require.Equal(t, who+": value 2 instead of 1 at 3600 of {}", strings.Replace(row.Wrong, "second: ", who+": ", 1))
	}
	row := newTable(t, 1, map[string]string{report.Promwarp: "1.0000000000000002", report.VictoriaMetrics: "2"}).ask(t)
	require.Empty(t, row.Wrong)
	require.Contains(t, row.Other, "value 2 instead of 1")
	require.Len(t, row.Costs, 5)
}

func TestTrialErrors(t *testing.T) {
	for _, who := range []string{report.Prometheus, report.PromwarpFirst, report.Promwarp} {
		row := newTable(t, 1, map[string]string{who: "error"}).ask(t)
		require.Contains(t, row.Error, who+": status 422: too much")
	}
	// One of VictoriaMetrics is a difference, and it is not asked again.
	f := newTable(t, 3, map[string]string{report.VictoriaMetrics: "error"})
	row := f.ask(t)
	require.Contains(t, row.Other, "too much")
	require.NotContains(t, row.Costs, report.VictoriaMetrics)
	require.Equal(t, 1, strings.Count(strings.Join(f.order(t), "\n"), report.VictoriaMetrics))
}

func TestLoad(t *testing.T) {
	f := newTable(t, 1, map[string]string{report.Prometheus: "error"})
	qs := f.questions(queries.All[:2]...)
	row := f.shown.Row("two")
	require.NoError(t, f.load(t.Context(), row, f.contenders[2], qs, load{clients: 3, each: 4}))
	require.Len(t, row.Costs[report.Promwarp].All, 12)
	require.Positive(t, row.Costs[report.Promwarp].PerSecond)
	require.NoError(t, f.load(t.Context(), row, f.contenders[2], qs, load{clients: 1, during: 50 * time.Millisecond}))
	require.NotEmpty(t, row.Costs[report.Promwarp].All)
	require.NoError(t, f.load(t.Context(), row, f.contenders[0], qs, load{clients: 1, each: 1}))
	require.Contains(t, row.Error, "too much")
}
