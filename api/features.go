package api

import (
	"maps"
	"slices"

	"github.com/prometheus/prometheus/util/features"
)

// featureSource is a features.Collector whose features are asked for when they are
// wanted: those of the engine, and what the doors can.
type featureSource struct {
	features.Collector
	ask func() map[string]map[string]bool
}

// Get implements features.Collector.
func (s featureSource) Get() map[string]map[string]bool {
	all := s.Collector.Get()
	for category, of := range s.ask() {
		if all[category] == nil {
			all[category] = map[string]bool{}
		}
		maps.Copy(all[category], of)
	}
	return all
}

// features are what /api/v1/features says, in Prometheus's words. What only a
// server has that scrapes, stores, alerts and has pages is absent.
func (a *API) features() features.Collector {
	ask := a.o.Features
	if ask == nil {
		r := features.NewRegistry()
		a.o.Parser.RegisterFeatures(r)
		ask = r.Get
	}
	r := features.NewRegistry()
	for name, on := range map[string]bool{
		"admin":                 false,
		"lifecycle":             false,
		"otlp_write_receiver":   false,
		"remote_write_receiver": false,
		"search":                false,
		"exclude_alerts":        true,
		"label_values_match":    true,
		"openapi_3.1":           true,
		"openapi_3.2":           true,
		"query_stats":           true,
		"query_warnings":        true,
		"time_range_labels":     true,
		"time_range_series":     true,
	} {
		r.Set(features.API, name, on)
	}
	r.Enable(features.Prometheus, "server_mode")
	r.Disable(features.Prometheus, "agent_mode")
	r.Disable(features.Prometheus, "auto_reload_config")
	r.Disable(features.UI, "ui_v2")
	r.Disable(features.UI, "ui_v3")
	return featureSource{r, ask}
}

// described are the doors that /api/v1/openapi.yaml describes, in Prometheus's words.
// A path stands for all that begin with it.
func (a *API) described() []string {
	paths := []string{"/read", "/status/buildinfo"}
	paths = slices.AppendSeq(paths, maps.Keys(evaluated))
	paths = slices.AppendSeq(paths, maps.Keys(here))
	paths = slices.AppendSeq(paths, maps.Keys(listed))
	if len(a.o.Remotes) == 1 {
		paths = slices.AppendSeq(paths, maps.Keys(upstreamOnly))
	}
	return paths
}
