package config

import (
	"encoding"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/planner/placement"
)

// GPUSettings say whether and how GPUs are used. In the file, --gpu is the key mode.
type GPUSettings struct {
	Mode           gpuMode  `yaml:"mode"`
	Devices        ordinals `yaml:"devices"`
	MemoryFraction fraction `yaml:"memory_fraction"`
	Constants      string   `yaml:"constants"`
	Library        string   `yaml:"library"`
	MemoryBytes    ByteSize `yaml:"memory_bytes"` // most of each; 0 for no other bound
}

// gpuMode is whether GPUs are used.
type gpuMode string

const (
	GPUAuto    gpuMode = "auto"    // those that can be
	GPUOff     gpuMode = "off"     // none
	GPURequire gpuMode = "require" // all that are named, or promwarp does not start
)

// UnmarshalText implements encoding.TextUnmarshaler, for flags and YAML.
func (m *gpuMode) UnmarshalText(text []byte) error {
	*m = gpuMode(text)
	if !slices.Contains([]gpuMode{GPUAuto, GPUOff, GPURequire}, *m) {
		return fmt.Errorf("not a way to use GPUs: %q; use auto, off or require", text)
	}
	return nil
}

// ordinals are the driver's numbers of devices, written with commas.
type ordinals string

func (o ordinals) List() (out []int, err error) {
	if o == "" {
		return nil, nil
	}
	for _, text := range strings.Split(string(o), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("not the number of a GPU: %q; write them as promwarp devices does, with commas, such as 0,2", text)
		}
		out = append(out, n)
	}
	return out, nil
}

// UnmarshalText implements encoding.TextUnmarshaler, for flags and YAML.
func (o *ordinals) UnmarshalText(text []byte) error {
	*o = ordinals(text)
	_, err := o.List()
	return err
}

// UnmarshalYAML implements yaml.Unmarshaler: a list will do.
func (o *ordinals) UnmarshalYAML(unmarshal func(any) error) error {
	var numbers []int
	if unmarshal(&numbers) == nil {
		text := strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
		return o.UnmarshalText([]byte(text))
	}
	var text string
	if err := unmarshal(&text); err != nil {
		return err
	}
	return o.UnmarshalText([]byte(text))
}

// defaultGPU are the settings where nothing else is said.
func defaultGPU() GPUSettings {
	return GPUSettings{Mode: GPUAuto, MemoryFraction: 0.8, Constants: placement.DefaultPath(), Library: device.Library}
}

// AddGPU declares the flags that say whether and how GPUs are used.
func (f *Flags) AddGPU(to flagger) {
	f.parsed(to, "gpu", "auto", "Whether to use NVIDIA GPUs: auto uses those that there are, require does not start without, off uses none. In the configuration file, gpu: {mode: ...}.", func(s *Settings) encoding.TextUnmarshaler { return &s.GPU.Mode })
	f.parsed(to, "gpu.devices", "0,1", "The GPUs to use, by the numbers that promwarp devices shows; by default all.", func(s *Settings) encoding.TextUnmarshaler { return &s.GPU.Devices })
	f.parsed(to, "gpu.memory-fraction", "0.8", "How much of a GPU's free memory to take at start.", func(s *Settings) encoding.TextUnmarshaler { return &s.GPU.MemoryFraction })
	f.parsed(to, "gpu.memory-bytes", "0", "Most memory to take of each GPU, in bytes or with a unit; 0 leaves it to gpu.memory-fraction.", func(s *Settings) encoding.TextUnmarshaler { return &s.GPU.MemoryBytes })
	f.text(to, "gpu.constants", "FILE", "File that keeps what the GPU and the cores were measured to do, for the next start; none if empty.", func(s *Settings) *string { return &s.GPU.Constants })
	f.text(to, "gpu.library", device.Library, "The CUDA driver's library.", func(s *Settings) *string { return &s.GPU.Library })
}

// validate checks what the types cannot say.
func (s *GPUSettings) validate() error {
	return broken(
		rule{s.Mode != GPUOff && s.Library == "", "gpu.library must name the CUDA driver's library; the default is " + device.Library},
		rule{s.Mode != GPUOff && !(s.MemoryFraction > 0 && s.MemoryFraction <= 1), "gpu.memory_fraction must be above 0 and at most 1; the default is 0.8"},
	)
}
