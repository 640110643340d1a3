package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/report"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	require.NoError(t, err)
	require.True(t, o.asks(peers.Promwarp) && o.asks(peers.VictoriaMetrics) && !o.asks(peers.Prometheus))
	require.Equal(t, []*stage{stages[0]}, o.stages)
	require.Equal(t, runtime.NumCPU(), o.cores[len(o.cores)-1])
	require.Equal(t, []int{1, 4, 16, 64}, o.clients)

	o, err = parseOptions([]string{"-only", "prometheus, promwarp", "-stages", "gzip,first", "-cores", "1", "-series", "7"}, io.Discard)
	require.NoError(t, err)
	require.True(t, o.asks(peers.Prometheus) && !o.asks(peers.VictoriaMetrics))
	require.Equal(t, "gzip first", o.stages[0].name+" "+o.stages[1].name)
	require.Equal(t, shape{block: 54 * time.Hour, series: 7, hours: 720, seed: 1, age: time.Hour, jitter: "none"}, o.data.or(o.stages[1].data))
}

func TestNumbers(t *testing.T) {
	all, err := numbers("cores", "", 6)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 4, 6}, all)
}

// What is given besides -smoke counts.
func TestSmokeOptions(t *testing.T) {
	o, err := parseOptions([]string{"-smoke", "-rounds", "7"}, io.Discard)
	require.NoError(t, err)
	require.False(t, o.asks(peers.VictoriaMetrics))
	require.Equal(t, 340, o.data.series)
	require.Equal(t, 7, o.rounds)
}

// TestHelp: all stages are listed.
func TestHelp(t *testing.T) {
	var b strings.Builder
	_, err := parseOptions([]string{"-h"}, &b)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, s := range stages {
		require.Contains(t, b.String(), "\n  "+s.name+" ")
	}
}

// TestFinish: a wrong answer makes the program fail.
func TestFinish(t *testing.T) {
	r := &rig{options: options{dir: t.TempDir()}, progress: io.Discard}
	r.result.Stage("first").Row("a").Wrong = "value 1 instead of 2"
	require.ErrorContains(t, r.finish(io.Discard), "1 questions failed")
}

// TestFrom: the results of a run elsewhere are shown here, and nothing is measured.
func TestFrom(t *testing.T) {
	dir := t.TempDir()
	file, page := filepath.Join(dir, "result.json"), filepath.Join(dir, "README.md")
	r := &rig{options: options{dir: dir, json: file}, progress: io.Discard}
	r.result.Setup.Commit = "d065d189"
	r.result.Stage("exporters").Row("node: a").Costs[peers.Promwarp] = report.Cost{Timing: report.NewTiming([]time.Duration{time.Second})}
	require.NoError(t, r.save())
	require.NoError(t, os.WriteFile(page, []byte("<!-- figures: make readme-figures -->\n<!-- end of figures -->\n"), 0o600))
	var out strings.Builder
	markdown := filepath.Join(dir, "r.md")
	require.NoError(t, run(t.Context(), []string{"-from", file, "-readme", page, "-markdown", markdown}, &out, io.Discard))
	require.Contains(t, out.String(), "promwarp's commit d065d189\n")
	require.FileExists(t, markdown)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "Measured at d065d189 on")
	require.ErrorContains(t, run(t.Context(), []string{"-from", page}, &out, io.Discard), "-from: ")
}

func TestOptionsRefused(t *testing.T) {
	for says, args := range map[string][]string{
		"-series, -hours and -rounds must be":    {"-series", "-1"},
		"-only: nothing is called \"mimir\"":     {"-only", "promwarp,mimir"},
		"missing closing":                        {"-queries", "("},
		"-cores: \"0\" is no number from 1 to":   {"-cores", "1,0"},
		"-clients: \"x\" is no number":           {"-clients", "x"},
		"-stages: nothing is called \"scaling\"": {"-stages", "cores,scaling"},
		"unexpected argument \"now\"":            {"now"},
		"not defined":                            {"-fast"},
	} {
		_, err := parseOptions(args, io.Discard)
		require.ErrorContains(t, err, says)
	}
}
