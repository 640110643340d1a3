package server

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

// TestServeOnGPU: a server asks the GPU where it is told to, says so, and keeps what
// it measured.
func TestServeOnGPU(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("devices=2,memory=1073741824")
	var log testfiles.Log
	set := quickSettings()
	set.EnableFeature = config.List{"promql-per-step-stats"}
	set.GPU = config.GPUSettings{Mode: config.GPURequire, MemoryFraction: 0.05, Library: cudatest.Library(t), Constants: filepath.Join(t.TempDir(), "c", "constants.json")}
	cfg := Config{Settings: set, Upstream: counting{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for start := range 2 {
		s, stop := runServer(t, cfg)
		answers(t, s, "/api/v1/query?query=sum(up)&time=1&executor=gpu&strict=true&stats=all", `"value":[1,"1"]`, `"totalQueryableSamplesPerStep":[[1,1]]`)
		_, body := fetch(t, "GET", s.URL()+"/api/v1/query?query=sum(up)&time=1")
		require.Contains(t, body, `"value":[1,"1"]`)
		_, body = fetch(t, "GET", s.URL()+"/metrics")
		require.Contains(t, body, "promwarp_gpu_jobs_total{gpu=")
		require.Contains(t, body, `promwarp_gpu_usable{gpu="1"} 1`)
		// Where the second query ran is by what this machine measured a moment ago.
		onGPU := counted(t, body, `promwarp_plan_nodes_total{executor="gpu",kind="aggregate"}`)
		require.Positive(t, onGPU)
		require.Equal(t, 2, onGPU+counted(t, body, `promwarp_gpu_declined_total{reason="the cores are expected to be faster"}`))
		_, body = fetch(t, "GET", s.URL()+"/explain?query=sum(up)&time=1&executor=gpu&analyze=true")
		var x struct {
			Data struct {
				Plan struct {
					Executor string
					Choice   struct {
						Took int64 `json:"took_us"`
						GPU  *int
					}
				}
			}
		}
		require.NoError(t, json.Unmarshal([]byte(body), &x))
		require.Equal(t, "gpu", x.Data.Plan.Executor)
		require.Positive(t, x.Data.Plan.Choice.Took)
		require.NotNil(t, x.Data.Plan.Choice.GPU)
		require.NoError(t, stop())
		require.Equal(t, 1, strings.Count(log.String(), "measured what the GPU and the cores do"), "start %d", start)
		require.Zero(t, h.Held())
	}
}

// counted returns a series' value in a page of metrics, 0 where it is not there.
func counted(t *testing.T, page, series string) int {
	_, rest, found := strings.Cut(page, "\n"+series+" ")
	if !found {
		return 0
	}
	text, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestServeWithoutGPU: without a driver a server runs unless a GPU is required, and
// says why it uses none.
func TestServeWithoutGPU(t *testing.T) {
	var log testfiles.Log
	set := quickSettings()
	set.GPU.Library = "libnothing.so.1"
	cfg := Config{Settings: set, Upstream: counting{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	s, stop := runServer(t, cfg)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "no GPU is used") }, 5*time.Second, time.Millisecond)
	answers(t, s, "/api/v1/query?query=sum(up)&time=1&executor=gpu", "not evaluated on a GPU: sum(up): no NVIDIA driver: libnothing.so.1")
	code, body := fetch(t, "GET", s.URL()+"/api/v1/query?query=sum(up)&time=1&executor=gpu&strict=true")
	require.Equal(t, 422, code)
	require.Contains(t, body, "executor=gpu with strict=true")
	require.NoError(t, stop())

	cfg.Settings.GPU.Mode = config.GPUOff
	s, stop = runServer(t, cfg)
	_, body = fetch(t, "GET", s.URL()+"/api/v1/query?query=sum(up)&time=1&executor=gpu")
	require.Contains(t, body, "no GPU is to be used (--gpu.mode=off)")
	require.NoError(t, stop())

	cfg.Settings.GPU.Mode = config.GPURequire
	_, err := New(cfg)
	require.ErrorContains(t, err, "no GPU, which --gpu.mode=require asks for: no NVIDIA driver: libnothing.so.1")
	h := cudatest.Control(t)
	cfg.Settings.GPU.Library, cfg.Settings.GPU.Devices = cudatest.Library(t), config.List{"0", "3"}
	_, err = New(cfg)
	require.ErrorContains(t, err, "there is no GPU 3: the driver finds 1, numbered from 0")
	h.Configure("capability=70")
	cfg.Settings.GPU.Devices = nil
	_, err = New(cfg)
	require.ErrorContains(t, err, "its compute capability is 7.0, and the kernels need 7.5")
}
