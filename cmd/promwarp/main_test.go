package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/device"
)

func TestExecute(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, exitUsage, execute(context.Background(), []string{"query", "--bogus"}, &stderr))
	require.Contains(t, stderr.String(), "--bogus")
	stderr.Reset()
	require.Equal(t, exitUsage, execute(context.Background(), []string{"serve"}, &stderr))
	require.Contains(t, stderr.String(), "nothing to read from")
	stderr.Reset()
	require.Equal(t, exitUsage, execute(context.Background(), []string{"serve", "--cache.host-bytes=much"}, &stderr))
	require.Contains(t, stderr.String(), "--cache.host-bytes")
}

func TestWhen(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"now": now, "-24h": now.AddDate(0, 0, -1), "now-1d": now.AddDate(0, 0, -1), "now+1h30m": now.Add(90 * time.Minute),
		"2026-01-02T03:04:05Z": now, fmt.Sprint(now.Unix()): now, "1.5": time.UnixMilli(1500).UTC(),
	} {
		got, err := parseWhen(text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), text)
	}
	for _, text := range []string{"", "noon", "24h", "now24h", "-", "NaN", "1e300"} {
		_, err := parseWhen(text, now)
		require.Error(t, err, text)
	}
	require.Equal(t, 5*time.Minute+45*time.Second, defaultStep(now.Add(-24*time.Hour), now))
	require.Equal(t, time.Second, defaultStep(now, now))
}

// TestGroups: help names each command once.
func TestGroups(t *testing.T) {
	var named, declared []string
	for _, g := range groups {
		named = append(named, g.Commands...)
	}
	app, _ := application()
	for _, c := range app.Model().FlattenedCommands() {
		if c.FullCommand != "help" {
			declared = append(declared, c.FullCommand)
		}
	}
	require.ElementsMatch(t, declared, named)
}

func TestDevicesTable(t *testing.T) {
	h := cudatest.Control(t)
	// A device retains its context once: the second call is the
	// second device's.
	h.Configure("devices=2,memory=1073741824,cuDevicePrimaryCtxRetain:2=46")
	var out bytes.Buffer
	require.NoError(t, runDevices(cudatest.Library(t), "table", &out))
	require.Regexp(t, `^driver +(\S+, )?CUDA 12.8

device 0 +promwarp host device 0, PCI 0000:00:00.0
compute capability +9.0, 1 multiprocessors
memory +1.0 GiB
memory free +1.0 GiB
copy to device +[\d.]+ GB/s
copy from device +[\d.]+ GB/s
launch and wait +\d+ µs
start +\d+ ms to open, \d+ ms to load the kernels
usable +yes; its sums are right

device 1 +promwarp host device 1, PCI 0000:01:00.0
compute capability +9.0, 1 multiprocessors
memory +1.0 GiB
usable +no: .*another process has it to itself
$`, out.String())
}

func TestDevicesJSON(t *testing.T) {
	cudatest.Control(t)
	var out bytes.Buffer
	require.NoError(t, runDevices(cudatest.Library(t), "json", &out))
	var inv device.Inventory
	require.NoError(t, json.Unmarshal(out.Bytes(), &inv))
	require.Equal(t, "12.8", inv.CUDA)
	require.Len(t, inv.Devices, 1)
	require.True(t, inv.Devices[0].Usable)
	require.Positive(t, inv.Devices[0].ToDevice)
}

func TestDevicesWithoutDriver(t *testing.T) {
	for _, output := range []string{"table", "json"} {
		var out bytes.Buffer
		require.ErrorIs(t, runDevices("libnothing.so.1", output, &out), errNoDevice)
		require.Contains(t, out.String(), "no NVIDIA driver: libnothing.so.1: cannot open shared object file")
	}
}

func TestDevicesCommand(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, exitError, execute(t.Context(), []string{"devices", "--gpu.library=libnothing.so.1"}, &stderr))
	require.Equal(t, "promwarp devices: no GPU is usable\n", stderr.String())
	require.Equal(t, exitUsage, execute(t.Context(), []string{"devices", "--format=xml"}, &stderr))
}

func TestReport(t *testing.T) {
	rows := []compare.Row{
		{Query: "sum(\n  m)", Prometheus: 40, First: 10, Repeated: 1, Verdict: compare.Same},
		{Query: "m", Prometheus: 10, First: 10, Repeated: 1, Verdict: compare.Different, Detail: "a bit"},
		{Query: "n", Verdict: compare.NotCompared, Detail: "Prometheus: timeout"},
		{Query: "o", Prometheus: 10, First: 5, Repeated: 0.1, Verdict: compare.Same, Remembered: true},
	}
	var b bytes.Buffer
	require.NoError(t, reportComparison(&b, rows, 80, false))
	summarizeComparison(&b, rows, false)
	require.Equal(t, `PROMETHEUS  FIRST  REPEATED  SPEED-UP          ANSWER        QUERY
40.0        10.0   1.0       4.0×, 40.0×       same          sum( m)
10.0        10.0   1.0       1.0×, 10.0×       DIFFERENT     m
-           -      -         -, -              not compared  n
10.0        5.0    0.1       2.0×, remembered  same          o

DIFFERENT: m
  a bit

not compared: n
  Prometheus: timeout

2 of 4 answers are the same to the bit, 1 differ, 1 could not be compared.
promwarp is 2.8× as fast at first and 40.0× when asked again (geometric means).
Remembered results answer 1 of them when asked again: that time is no speed-up of evaluating. --cache.results-bytes=0 remembers none.
`, b.String())
}

// TestQuick: where answers are empty, or there was nothing to save, the summary says so.
func TestQuick(t *testing.T) {
	empty := func(context.Context) (*compare.Answer, error) {
		return &compare.Answer{Type: "matrix", Took: time.Millisecond}, nil
	}
	one := func(context.Context) (*compare.Answer, error) {
		return &compare.Answer{Type: "scalar", Series: make([]compare.Series, 1), Took: time.Millisecond}, nil
	}
	row, err := compare.Measure(t.Context(), empty, empty, compare.Rounds{Prometheus: 1, Repeated: 1})
	require.NoError(t, err)
	require.True(t, row.Empty)
	full, err := compare.Measure(t.Context(), one, one, compare.Rounds{Prometheus: 1, Repeated: 1})
	require.NoError(t, err)
	require.False(t, full.Empty)
	var b bytes.Buffer
	summarizeComparison(&b, []compare.Row{row, {Prometheus: 1, First: 20, Repeated: 0.5, Verdict: compare.Same}}, false)
	require.Equal(t, `
2 of 2 answers are the same to the bit.
1 of them are empty, which says little: --start and --end set the time that is asked for.
promwarp is 0.2× as fast at first and 1.4× when asked again (geometric means).
Prometheus takes less than 10 ms for each of them: promwarp is for queries that take longer.
`, b.String())
}
