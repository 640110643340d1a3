package fleet

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cost"
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// crossoverEnv names the file that TestCrossover writes what it measures to.
const crossoverEnv = "PROMWARP_GPU_CROSSOVER"

// crossing is how long a sum of rates takes over so many samples, in seconds, and
// how long it was expected to.
type crossing struct {
	Samples          int64   `json:"samples"`
	Windows          int64   `json:"windows"`
	Cores            float64 `json:"cores"`
	NotResident      float64 `json:"gpu_not_resident"`
	Resident         float64 `json:"gpu_resident"`
	ExpectedCores    float64 `json:"expected_cores"`
	ExpectedNot      float64 `json:"expected_gpu_not_resident"`
	ExpectedResident float64 `json:"expected_gpu_resident"`
}

// TestCrossover measures where the device overtakes the cores, and how good the
// estimates by the measured constants are, before anything is learned.
func TestCrossover(t *testing.T) {
	path := os.Getenv(crossoverEnv)
	if path == "" {
		t.Skip("measures only if " + crossoverEnv + " names a file")
	}
	f, err := Open(Options{Require: true, Devices: []int{0}, MemoryFraction: 0.5, Library: cudatest.Library(t)})
	require.NoError(t, err)
	defer f.Close()
	d, model := f.all()[0], f.model.Load()
	t.Logf("%+v", model.Constants())
	var out []crossing
	for _, series := range []int{8, 32, 128, 512, 2048, 8192, 32_768, 131_072, 524_288} {
		grid := plan.Grid{Start: span / 2, Interval: span / 64, Steps: 32}
		median := func(n int, evaluate func(s *selection.Selection)) float64 {
			var took []float64
			for range n {
				s := counters(series)
				start := time.Now()
				evaluate(s)
				took = append(took, time.Since(start).Seconds())
			}
			slices.Sort(took)
			return took[n/2]
		}
		var c crossing
		cpu := cpuexec.New(cpuexec.Options{})
		c.Cores = median(3, func(s *selection.Selection) {
			_, err := cpu.Run(t.Context(), rates(s, grid))
			require.NoError(t, err)
		})
		c.NotResident = median(5, func(s *selection.Selection) {
			_, err := d.x.Run(t.Context(), rates(s, grid))
			require.NoError(t, err)
		})
		kept := counters(series)
		l, err := cpu.OpenLeaf(t.Context(), rates(kept, grid))
		require.NoError(t, err)
		size := sizeOf(l)
		require.NoError(t, d.x.Keep(t.Context(), kept))
		c.Resident = median(5, func(*selection.Selection) {
			_, err := d.x.RunStages(t.Context(), rates(kept, grid), &gpuexec.Stages{})
			require.NoError(t, err)
		})
		c.Samples, c.Windows = size.Samples, size.Windows
		e := model.Estimate(size)
		c.ExpectedCores, c.ExpectedNot = e[cost.Cores].Seconds(), e[cost.Device].Seconds()
		size.Missing = 0
		c.ExpectedResident = model.Estimate(size)[cost.Device].Seconds()
		out = append(out, c)
		t.Logf("%+v", c)
	}
	b, err := json.MarshalIndent(struct {
		Constants cost.Constants `json:"constants"`
		Crossings []crossing     `json:"crossings"`
	}{model.Constants(), out}, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(b, '\n'), 0o644))
}
