package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

func TestGPUSettings(t *testing.T) {
	s := load(t, "--upstream.url=http://p", "--gpu=require", "--gpu.devices=0, 2", "--gpu.memory-fraction=0.5", "--gpu.memory-bytes=3GiB", "--gpu.constants=", "--gpu.library=other.so")
	require.NoError(t, s.validate())
	require.Equal(t, gpuSettings{gpuRequire, "0, 2", 0.5, "", "other.so", 3 << 30}, s.GPU)
	devices, err := s.GPU.Devices.list()
	require.NoError(t, err)
	require.Equal(t, []int{0, 2}, devices)
	for text, want := range map[string]gpuSettings{
		"gpu: {mode: off, constants: c.json}":                                      {gpuOff, "", 0.8, "c.json", "libcuda.so.1", 0},
		"gpu: {mode: 'off', constants: ''}":                                        {gpuOff, "", 0.8, "", "libcuda.so.1", 0},
		"gpu: {mode: require, devices: [0, 1], memory_fraction: 1, constants: ''}": {gpuRequire, "0,1", 1, "", "libcuda.so.1", 0},
		"gpu: {devices: 3, constants: ''}":                                         {gpuAuto, "3", 0.8, "", "libcuda.so.1", 0},
	} {
		s := load(t, "--upstream.url=http://p", "--config.file="+writeFile(t, text))
		if s.GPU.Constants != "" {
			require.True(t, filepath.IsAbs(s.GPU.Constants))
			s.GPU.Constants = filepath.Base(s.GPU.Constants)
		}
		require.Equal(t, want, s.GPU, text)
		require.NoError(t, s.validate())
	}
	for text, want := range map[string]string{
		"gpu: {mode: on}":                `not a way to use GPUs: "on"; use auto, off or require`,
		"gpu: {mode: always}":            `not a way to use GPUs: "always"`,
		"gpu: {devices: a}":              `not the number of a GPU: "a"`,
		"gpu: {devices: [-1]}":           `not the number of a GPU: "-1"`,
		"gpu: {memory_fraction: 0}":      `not a fraction: "0"`,
		"gpu: {memory_fraction: 1.5}":    `not a fraction: "1.5"`,
		"gpu: {memory-fraction: 0.5}":    `unknown key "memory-fraction"`,
		"gpu: {library: '', mode: auto}": "gpu.library must name",
	} {
		s, err := parseFlags(t, "--upstream.url=http://p", "--config.file="+writeFile(t, text)).load()
		if err == nil {
			err = s.validate()
		}
		require.ErrorContains(t, err, want, text)
	}
}

// TestServeOnGPU: a server asks the GPU where it is told to, says so, and keeps what
// it measured.
func TestServeOnGPU(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := cudatest.Control(t)
	h.Configure("devices=2,memory=1073741824")
	var log lines
	set := quickSettings()
	set.EnableFeature = "promql-per-step-stats"
	set.GPU = gpuSettings{Mode: gpuRequire, MemoryFraction: 0.05, Library: cudatest.Library(t), Constants: filepath.Join(t.TempDir(), "c", "constants.json")}
	cfg := serverConfig{Settings: set, Upstream: counting{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for start := range 2 {
		s, stop := runServer(t, cfg)
		code, body := fetch(t, "GET", s.URL()+"/api/v1/query?query=sum(up)&time=1&executor=gpu&strict=true&stats=all")
		require.Equal(t, 200, code, body)
		require.Contains(t, body, `"value":[1,"1"]`)
		require.Contains(t, body, `"totalQueryableSamplesPerStep":[[1,1]]`)
		_, body = fetch(t, "GET", s.URL()+"/api/v1/query?query=sum(up)&time=1")
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
	require.NoError(t, os.WriteFile(set.GPU.Constants, []byte("{}"), 0o600))
	_, stop := runServer(t, cfg)
	require.NoError(t, stop())
	require.Equal(t, 1, strings.Count(log.String(), "is of no use and is measured again"))
	require.Equal(t, 2, strings.Count(log.String(), "measured what the GPU and the cores do"))
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
	defer goleak.VerifyNone(t)
	var log lines
	set := quickSettings()
	set.GPU.Library = "libnothing.so.1"
	cfg := serverConfig{Settings: set, Upstream: counting{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	s, stop := runServer(t, cfg)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "no GPU is used") }, 5*time.Second, time.Millisecond)
	code, body := fetch(t, "GET", s.URL()+"/api/v1/query?query=sum(up)&time=1&executor=gpu")
	require.Equal(t, 200, code)
	require.Contains(t, body, "not evaluated on a GPU: sum(up): no NVIDIA driver: libnothing.so.1")
	code, body = fetch(t, "GET", s.URL()+"/api/v1/query?query=sum(up)&time=1&executor=gpu&strict=true")
	require.Equal(t, 422, code)
	require.Contains(t, body, "executor=gpu with strict=true")
	require.NoError(t, stop())

	cfg.Settings.GPU.Mode = gpuOff
	s, stop = runServer(t, cfg)
	_, body = fetch(t, "GET", s.URL()+"/api/v1/query?query=sum(up)&time=1&executor=gpu")
	require.Contains(t, body, "no GPU is to be used (--gpu=off)")
	require.NoError(t, stop())

	cfg.Settings.GPU.Mode = gpuRequire
	_, err := newServer(cfg)
	require.ErrorContains(t, err, "no GPU, which --gpu=require asks for: no NVIDIA driver: libnothing.so.1")
	h := cudatest.Control(t)
	cfg.Settings.GPU.Library, cfg.Settings.GPU.Devices = cudatest.Library(t), "0,3"
	_, err = newServer(cfg)
	require.ErrorContains(t, err, "there is no GPU 3: the driver finds 1, numbered from 0")
	h.Configure("capability=70")
	cfg.Settings.GPU.Devices = ""
	_, err = newServer(cfg)
	require.ErrorContains(t, err, "its compute capability is 7.0, and the kernels need 7.5")
	var stderr bytes.Buffer
	require.Equal(t, exitError, execute(t.Context(), []string{"query", "--upstream.url=http://127.0.0.1:1", "--gpu.library=libnothing.so.1", "--executor=gpu", "sum(up)"}, &stderr))
	require.Contains(t, stderr.String(), "no NVIDIA driver")
}
