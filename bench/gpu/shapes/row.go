package shapes

import (
	"fmt"

	"github.com/promwarp/promwarp/bench/gpu/measure"
	"github.com/promwarp/promwarp/plan"
)

// Row is how long one query takes, medians in ms.
type Row struct {
	Name    string `json:"name"`
	Query   string `json:"query"`
	Series  int    `json:"series"`
	Samples int64  `json:"samples"`
	Bytes   int64  `json:"chunk_bytes"`
	Points  int    `json:"points"` // of the answer

	Resident    float64 `json:"gpu_resident_ms"`
	NotResident float64 `json:"gpu_not_resident_ms"`
	Cores       float64 `json:"cores_ms"`
	Prometheus  []Slice `json:"prometheus"`
	Scaled      float64 `json:"prometheus_scaled_ms"` // not measured: see the package

	OnGPU []Leaf   `json:"on_gpu,omitempty"`
	Left  []string `json:"left_to_the_cores,omitempty"` // and why

	// How far values are apart, relative, at most; 0 where all bits are the same.
	GPUFromPrometheus   float64 `json:"gpu_from_prometheus"`   // over the slice
	CoresFromPrometheus float64 `json:"cores_from_prometheus"` // over the slice
	GPUFromCores        float64 `json:"gpu_from_cores"`        // over all series

	Failed string `json:"failed,omitempty"`
}

// Slice is how long Prometheus's engine takes over some of the series.
type Slice struct {
	Series int     `json:"series"`
	Ms     float64 `json:"ms"`
}

// Leaf is a part of a query that the GPU evaluated over the slice, and what it took.
type Leaf struct {
	Expr   string            `json:"expr"`
	Stages plan.DeviceStages `json:"stages"`
}

// Table is the rows for reading.
func Table(rows []Row) measure.Table {
	t := measure.Table{
		Title: "Whole queries, ms; Prometheus's engine is scaled from slices, as the last column says:",
		Head:  []string{"query", "series", "GPU, resident", "G samples/s", "GPU, not resident", "cores", "Prometheus, scaled", "cores / resident", "Prometheus / resident", "on the GPU", "measured with Prometheus"},
	}
	for _, r := range rows {
		where := "all windows"
		switch {
		case len(r.OnGPU) == 0:
			where = "nothing"
		case len(r.Left) > 0:
			where = "in part"
		}
		var slices string
		for _, s := range r.Prometheus {
			slices += fmt.Sprintf("%d series %s, ", s.Series, measure.Number(s.Ms))
		}
		t.Add("`"+r.Query+"`", fmt.Sprint(r.Series), measure.Number(r.Resident), measure.Number(float64(r.Samples)/r.Resident/1e6), measure.Number(r.NotResident),
			measure.Number(r.Cores), measure.Number(r.Scaled), measure.Times(r.Cores, r.Resident), measure.Times(r.Scaled, r.Resident), where, slices[:len(slices)-2])
	}
	return t
}
