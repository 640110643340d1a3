//go:build !race

package encode

import v1 "github.com/prometheus/prometheus/web/api/v1"

// byPrometheus is what Prometheus's encoder writes.
func byPrometheus(r Result) ([]byte, error) {
	return v1.JSONCodec{}.Encode(&v1.Response{
		Status: "success", Warnings: r.Warnings, Infos: r.Infos,
		Data: &v1.QueryData{ResultType: r.Value.Type(), Result: r.Value, Stats: r.Stats},
	})
}
