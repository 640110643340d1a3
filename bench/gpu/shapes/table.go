package shapes

import (
	"fmt"

	"github.com/promwarp/promwarp/bench/gpu/measure"
)

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
