package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
)

var constants = placement.Constants{
	Cores:  placement.Costs{Sample: 10},
	Device: placement.Costs{Fixed: time.Millisecond, Sample: 0.1},
	Link:   10e9,
}

// small is a rig over few samples with kernels on the host.
func small(t *testing.T) *rig {
	gpus, err := placement.Open(placement.Options{
		Options: device.Options{Require: true, MemoryFraction: 0.2, Library: cudatest.Library(t)}, Constants: &constants,
	})
	require.NoError(t, err)
	t.Cleanup(func() { gpus.Close() })
	return &rig{
		Limits: report.Limits{Rounds: 1, Budget: time.Second}, gpus: gpus, series: 120, samples: 260, names: regexp.MustCompile(""), log: t.Logf,
	}
}

func TestShapes(t *testing.T) {
	r := small(t)
	var rows []Row
	require.NoError(t, r.shapes(t.Context(), func(all []Row) { rows = all }))
	require.Len(t, rows, len(shapes))
	for _, row := range rows {
		for _, ms := range []float64{row.Resident, row.NotResident, row.Cores, float64(row.Values)} {
			require.Positive(t, ms, row.Name)
		}
		require.Equal(t, int64(row.Series*r.samples), row.Samples, row.Name)
		if row.Name == "division" {
			require.Equal(t, 132, row.Series, "it reads errors, too")
		}
	}
	require.Len(t, tableOf("", rows).Rows, len(shapes))
}

// TestSame: an answer that is off by more than promwarp's may be is an error.
func TestSame(t *testing.T) {
	answer := func(v float64) compare.Answer {
		return answerOf(promql.Matrix{{Metric: labels.FromStrings("a", "x"), Floats: []promql.FPoint{{T: 7, F: v}}}}, nil)
	}
	require.NoError(t, same(answer(math.Nextafter(2, 3)), answer(2)))
	require.EqualError(t, same(answer(2.1), answer(2)), `value 2.1 instead of 2 at 0.007 of {a="x"}`)
	require.ErrorContains(t, same(compare.Answer{Err: errors.New("lost")}, answer(2)), "lost")
}

func TestNames(t *testing.T) {
	r := &rig{names: regexp.MustCompile("nothing is called so")}
	require.NoError(t, r.shapes(t.Context(), func([]Row) { t.Fail() }))
}

// TestHistograms: their buckets are cumulative, so that no quantile is repaired.
func TestHistograms(t *testing.T) {
	d := &data{samples: 50, made: map[key]*selection.Selection{}}
	all, err := d.metrics([]string{buckets}, 530)
	require.NoError(t, err)
	s := all[buckets]
	require.Equal(t, 530, s.NumSeries())
	for i := 1; i < s.NumSeries(); i++ {
		require.Negative(t, labels.Compare(s.Labels(i-1), s.Labels(i)), "in order")
	}
	q, err := all.Querier(0, math.MaxInt64)
	require.NoError(t, err)
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", buckets))
	last := map[string]float64{}
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() != 0 {
			_, v := it.At()
			last[set.At().Labels().Get("instance")+set.At().Labels().Get("le")] = v
		}
	}
	require.NoError(t, set.Err())
	for k := 1; k < 9; k++ {
		require.LessOrEqual(t, last["host-000007"+les[k]], last["host-000007"+les[k+1]])
	}
	require.Less(t, last["host-0000072.5"], last["host-000007+Inf"])
}

func TestCrossover(t *testing.T) {
	r := small(t)
	var last []Row
	require.NoError(t, r.crossover(t.Context(), 40_000, func(rows []Row) { last = rows }))
	require.Len(t, last, 4)
	for i, p := range last {
		require.Equal(t, int64(sizes[i][0]*sizes[i][1]), p.Samples)
		require.Positive(t, p.Cores)
		require.Positive(t, p.NotResident)
		require.Positive(t, p.Resident)
	}
	require.Len(t, crossoverTable(last).Rows, 4)
}

func TestSizes(t *testing.T) {
	for i := 1; i < len(sizes); i++ {
		growth := float64(sizes[i][0]*sizes[i][1]) / float64(sizes[i-1][0]*sizes[i-1][1])
		require.InDelta(t, 3.16, growth, 0.1)
	}
}

func TestCrossing(t *testing.T) {
	resident := func(p *Row) float64 { return p.Resident }
	rows := []Row{{Samples: 100, Cores: 1, Resident: 100}, {Samples: 10_000, Cores: 100, Resident: 1}}
	require.InDelta(t, 1000, crossing(rows, resident), 1e-6)
	require.Zero(t, crossing(rows[:1], resident))
	require.Zero(t, crossing(rows[1:], resident))
	require.Zero(t, crossing(nil, resident))
}

// TestRun measures one thing of each kind in a small size.
func TestRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results.json")
	o, err := parse([]string{
		"-crossover", "-most", "1000", "-shapes", "-resample", "-match", "^(rate|eight by job|custom (mean|steps) by job.*|10 of .*)$", "-series", "40", "-samples", "200",
		"-rounds", "1", "-budget", "10ms", "-memory", "0.1", "-library", cudatest.Library(t), "-out", out,
	}, io.Discard)
	require.NoError(t, err)
	var table, log bytes.Buffer
	require.NoError(t, o.run(t.Context(), &table, &log))
	require.Contains(t, table.String(), "promwarp host device 0")
	require.Contains(t, table.String(), "`sum by (job) (rate(m_total[5m]))`")
	b, err := os.ReadFile(out)
	require.NoError(t, err)
	var r results
	require.NoError(t, json.Unmarshal(b, &r))
	require.Len(t, r.Shapes, 1)
	require.Len(t, r.Crossover, 1)
	require.Len(t, r.Resampled, 3)
	for _, row := range r.Resampled {
		require.Positive(t, row.Resident, row.Name)
	}
	require.Equal(t, int64(8000), r.Resampled[0].Samples)
	require.NotEmpty(t, r.Date)
	require.Positive(t, r.Cores)
	require.True(t, r.Machine.Usable())
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args []string
		err  string
	}{
		{nil, "say what to measure"},
		{[]string{"-shapes", "now"}, `unexpected argument "now"`},
		{[]string{"-shapes", "-match", "("}, "-match: "},
		{[]string{"-shapes", "-series", "0"}, "at least 1"},
	} {
		_, err := parse(c.args, io.Discard)
		require.ErrorContains(t, err, c.err)
	}
}

// TestNoGPU: without one the error says why.
func TestNoGPU(t *testing.T) {
	o, err := parse([]string{"-crossover", "-library", "libnothing.so.1"}, io.Discard)
	require.NoError(t, err)
	require.ErrorContains(t, o.run(t.Context(), io.Discard, io.Discard), "no GPU is usable: no NVIDIA driver")
}
