package config

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
)

func TestGPUSettings(t *testing.T) {
	s := load(t, "--upstream.url=http://p", "--gpu=require", "--gpu.devices=0, 2", "--gpu.memory-fraction=0.5", "--gpu.memory-bytes=3GiB", "--gpu.constants=", "--gpu.library=other.so")
	require.NoError(t, s.Validate())
	require.Equal(t, GPUSettings{GPURequire, List{"0", "2"}, 0.5, 3 << 30, "", "other.so"}, s.GPU)
	devices, err := s.GPU.Ordinals()
	require.NoError(t, err)
	require.Equal(t, []int{0, 2}, devices)
	for text, want := range map[string]GPUSettings{
		"gpu: {mode: off, constants: c.json}":                                      {GPUOff, nil, 0.8, 0, "c.json", "libcuda.so.1"},
		"gpu: {mode: 'off', constants: ''}":                                        {GPUOff, nil, 0.8, 0, "", "libcuda.so.1"},
		"gpu: {mode: require, devices: [0, 1], memory_fraction: 1, constants: ''}": {GPURequire, List{"0", "1"}, 1, 0, "", "libcuda.so.1"},
		"gpu: {devices: 3, constants: ''}":                                         {GPUAuto, List{"3"}, 0.8, 0, "", "libcuda.so.1"},
	} {
		s := load(t, "--upstream.url=http://p", "--config.file="+testfiles.Config(t, text))
		if s.GPU.Constants != "" {
			require.True(t, filepath.IsAbs(s.GPU.Constants))
			s.GPU.Constants = filepath.Base(s.GPU.Constants)
		}
		require.Equal(t, want, s.GPU, text)
		require.NoError(t, s.Validate())
	}
	for text, want := range map[string]string{
		"gpu: {mode: on}":                "gpu.mode is on and must be one of auto, off, require; the default is auto. Whether",
		"gpu: {mode: always}":            "gpu.mode is always and must be",
		"gpu: {devices: a}":              `not the number of a GPU: "a"`,
		"gpu: {devices: [-1]}":           `not the number of a GPU: "-1"`,
		"gpu: {memory_fraction: 0}":      "gpu.memory_fraction is 0 and must be 0.001 to 1",
		"gpu: {memory_fraction: 1.5}":    "gpu.memory_fraction is 1.5 and must be",
		"gpu: {memory-fraction: 0.5}":    `unknown key "memory-fraction"`,
		"gpu: {library: '', mode: auto}": "gpu.library must name",
	} {
		s, err := parseFlags(t, "--upstream.url=http://p", "--config.file="+testfiles.Config(t, text)).Load()
		if err == nil {
			err = s.Validate()
		}
		require.ErrorContains(t, err, want, text)
	}
}
