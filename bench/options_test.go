package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
)

var now = time.Unix(1_700_000_030, 0)

func TestOptions(t *testing.T) {
	o, err := parseOptions(nil, now, io.Discard)
	require.NoError(t, err)
	require.True(t, o.promwarp && o.vm)
	require.Len(t, o.queries, len(queries.All))
	require.EqualValues(t, 1_699_999_980, o.end)
	d := o.data()
	require.Equal(t, o.length().Milliseconds(), d.End-d.Start)
	require.Equal(t, o.end*1000, d.End)

	o, err = parseOptions([]string{"-only", "prometheus, promwarp", "-queries", "^red-rate$", "-end", "1600000000"}, now, io.Discard)
	require.NoError(t, err)
	require.True(t, o.promwarp && !o.vm)
	require.Len(t, o.queries, 1)
	require.EqualValues(t, 1_600_000_000, o.end)
}

// What is given besides -smoke counts.
func TestSmokeOptions(t *testing.T) {
	o, err := parseOptions([]string{"-smoke", "-rounds", "7"}, now, io.Discard)
	require.NoError(t, err)
	require.False(t, o.vm)
	require.Equal(t, 340, o.series)
	require.Equal(t, 7, o.rounds)
}

// TestDocs: the documentation gets the result of a run as it describes, no other.
func TestDocs(t *testing.T) {
	r := &report.Result{}
	for _, args := range [][]string{{}, {"-out", "r.json", "-markdown", "r.md"}} {
		o, err := parseOptions(append([]string{"-docs", filepath.Join(t.TempDir(), "none.md")}, args...), now, io.Discard)
		require.NoError(t, err)
		require.ErrorIs(t, document(r, o, func(string) {}), os.ErrNotExist, "it would be written")
	}
	for _, args := range [][]string{{"-smoke"}, {"-queries", "red"}, {"-decoded", "0"}, {"-results", "64MiB"}, {"-rounds", "1"}, {"-only", "promwarp"}} {
		o, err := parseOptions(append([]string{"-docs", filepath.Join(t.TempDir(), "none.md")}, args...), now, io.Discard)
		require.NoError(t, err)
		var said string
		require.NoError(t, document(r, o, func(s string) { said = s }))
		require.Contains(t, said, "none.md stays as it is, because of -")
	}
	require.NoError(t, document(r, options{}, func(string) { t.Fail() }))
}

func TestOptionsRefused(t *testing.T) {
	for says, args := range map[string][]string{
		"-series must be":             {"-series", "0"},
		"-hours must be":              {"-hours", "0"},
		"-rounds must be":             {"-rounds", "-1"},
		"-end must be":                {"-end", "5"},
		"no peer is called \"mimir\"": {"-only", "promwarp,mimir"},
		"missing closing":             {"-queries", "("},
		"is no number of cores":       {"-cores", "1,0"},
		"matches none of":             {"-queries", "^none such$"},
		"unexpected argument \"now\"": {"now"},
		"not defined":                 {"-fast"},
	} {
		_, err := parseOptions(args, now, io.Discard)
		require.ErrorContains(t, err, says)
	}
	_, err := parseOptions([]string{"-h"}, now, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
}
