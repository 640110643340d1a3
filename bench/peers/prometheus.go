package peers

import (
	"context"
	"os"
	"path/filepath"
)

// StartPrometheus starts a Prometheus that answers from the blocks in
// dir/data and scrapes nothing.
func StartPrometheus(ctx context.Context, program Program, dir string) (*Process, error) {
	return StartReader(ctx, program, dir, "")
}

// StartReader starts a Prometheus that is configured by text, with its files in dir and its
// samples in dir/data, and with further flags.
func StartReader(ctx context.Context, program Program, dir, text string, flags ...string) (*Process, error) {
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	flags = append(flags,
		"--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--storage.tsdb.retention.time=10y",
		// Equal, so that it does not compact while it is measured.
		"--storage.tsdb.min-block-duration=2h",
		"--storage.tsdb.max-block-duration=2h",
		"--web.listen-address="+addr,
		"--log.level=warn")
	return start(ctx, "Prometheus", place{addr, "/-/ready"}, program, flags...)
}
