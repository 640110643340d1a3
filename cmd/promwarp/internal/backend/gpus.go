package backend

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/planner/placement"
)

// OpenGPUs opens the GPUs that s asks for; nil where it asks for none.
func OpenGPUs(s config.GPUSettings, logger *slog.Logger, reg prometheus.Registerer) (*placement.Placer, error) {
	if s.Mode == config.GPUOff {
		return nil, nil
	}
	devices, err := s.Ordinals()
	if err != nil {
		return nil, config.Usage(err)
	}
	gpus, err := placement.Open(placement.Options{
		Options: device.Options{
			Require: s.Mode == config.GPURequire, Devices: devices, MemoryFraction: float64(s.MemoryFraction), MemoryBytes: int64(s.MemoryBytes),
			Library: s.Library, Logger: logger.With("component", "gpu"), Registerer: reg,
		},
		ConstantsFile: s.Constants,
	})
	if err != nil {
		return nil, fmt.Errorf("no GPU, which --gpu=require asks for: %w", err)
	}
	return gpus, nil
}
