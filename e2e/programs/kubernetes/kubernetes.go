// Package kubernetes stands in for Prometheus's package of that name in the promtool that programs builds: it has
// what promtool names of it, and no discovery.
package kubernetes

import (
	"github.com/prometheus/common/config"

	"github.com/prometheus/prometheus/discovery"
)

// SDConfig is a configuration that no file can have.
type SDConfig struct {
	discovery.Config
	HTTPClientConfig config.HTTPClientConfig
}
