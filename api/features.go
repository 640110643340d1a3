package api

import (
	"encoding/json"
	"maps"
	"net/http"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/features"
)

// features answers with what Prometheus's clients may rely on, in Prometheus's words: what the doors can,
// and what the engine and its parser. What only a server has that scrapes, stores, alerts and has pages
// is absent.
func (a *API) features(*http.Request) (any, annotations.Annotations, error) {
	all := map[string]map[string]bool{
		features.API: {
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
		},
		features.Prometheus: {"server_mode": true, "agent_mode": false, "auto_reload_config": false},
		features.UI:         {"ui_v2": false, "ui_v3": false},
	}
	for category, of := range a.o.Features() {
		if all[category] == nil {
			all[category] = map[string]bool{}
		}
		maps.Copy(all[category], of)
	}
	text, err := jsoniter.Config{SortMapKeys: true}.Froze().Marshal(all) // operators as they are: >=
	return json.RawMessage(text), nil, err
}
