package programs

import (
	"context"
	"os"
	"path/filepath"

	"github.com/promwarp/promwarp/internal/dataset"
)

// PrometheusArgs are the arguments of a Prometheus that keeps its data directory as it is.
func PrometheusArgs(addr, dataDir, configFile string) []string {
	return []string{
		"--config.file=" + configFile,
		"--storage.tsdb.path=" + dataDir,
		"--storage.tsdb.retention.time=10y",
		"--storage.tsdb.min-block-duration=2h",
		"--storage.tsdb.max-block-duration=2h",
		"--web.listen-address=" + addr,
	}
}

// StartFilled starts a Prometheus over generated data, which it writes into the folder data of dir.
func StartFilled(ctx context.Context, bin, dir string, o dataset.Options) (*Process, dataset.Stats, error) {
	data, config := filepath.Join(dir, "data"), filepath.Join(dir, "prometheus.yml")
	stats, err := dataset.WriteBlocks(ctx, data, o, nil)
	if err != nil {
		return nil, stats, err
	}
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		return nil, stats, err
	}
	p, err := StartReady("Prometheus", bin, func(addr string) []string { return PrometheusArgs(addr, data, config) })
	return p, stats, err
}
