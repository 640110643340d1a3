package report

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/internal/dataset"
)

// The contenders: who answers, and in what state.
const (
	Prometheus      = "prometheus"
	PromwarpFirst   = "promwarp first"    // with nothing cached
	Promwarp        = "promwarp repeated" // with the query's samples cached
	VictoriaMetrics = "victoriametrics"
)

// Result is what a run of the benchmark found.
type Result struct {
	Setup    Setup            `json:"setup"`
	Rows     []Row            `json:"queries"`
	Ratios   []Ratio          `json:"ratios"` // made by Finish
	PeakRSS  map[string]int64 `json:"peakRSSBytes"`
	WallTime float64          `json:"wallSeconds"`
}

// Setup is what was compared.
type Setup struct {
	Contenders []string          `json:"contenders"` // in the order of the table
	Versions   map[string]string `json:"versions"`
	Cores      int               `json:"cores"`
	Hours      int               `json:"hours"`
	Seed       uint64            `json:"seed"`
	End        int64             `json:"end"` // of the data, seconds since the epoch
	Rounds     int               `json:"rounds"`
	Data       dataset.Stats     `json:"data"`
}

// Row is what was found for one query.
type Row struct {
	Name    string            `json:"name"`
	Expr    string            `json:"query"`
	Range   string            `json:"range"`
	Step    string            `json:"step"`
	Series  int               `json:"series"` // of Prometheus's answer
	Points  int               `json:"points"`
	Timings map[string]Timing `json:"timings"` // by contender
	// How promwarp's answer differed from Prometheus's, nil if none did.
	Wrong *answer.Difference `json:"wrong,omitempty"`
	// How VictoriaMetrics's answer differed, nil if it did not. An error of its
	// own is one difference, in words.
	Other *answer.Difference `json:"victoriametricsDiffers,omitempty"`
	// What kept the query from being compared at all.
	Error string `json:"error,omitempty"`
}

// ratio is how many times sooner than base the contender answered.
func (r *Row) ratio(base, contender string) (float64, bool) {
	b, ok := r.Timings[base]
	c, ok2 := r.Timings[contender]
	if !ok || !ok2 || b.Median <= 0 || c.Median <= 0 {
		return 0, false
	}
	return b.Median / c.Median, true
}

// Ratio compares two contenders over all queries that both answered: how many
// times sooner Contender did than Base.
type Ratio struct {
	Base      string  `json:"base"`
	Contender string  `json:"contender"`
	Mean      float64 `json:"geometricMean"`
	Least     float64 `json:"least"`
	LeastOf   string  `json:"leastOf"` // name of the query
	Most      float64 `json:"most"`
	MostOf    string  `json:"mostOf"`
	Queries   int     `json:"queries"`
}

// columns are the ratios that are shown: base, contender, title.
var columns = [...]struct{ base, contender, title string }{
	{Prometheus, PromwarpFirst, "first ×"},
	{Prometheus, Promwarp, "repeated ×"},
	{Prometheus, VictoriaMetrics, "VM ×"},
	{VictoriaMetrics, PromwarpFirst, "first/VM ×"},
	{VictoriaMetrics, Promwarp, "repeated/VM ×"},
}

// Finish computes the ratios over all queries.
func (r *Result) Finish() {
	r.Ratios = nil
	for _, c := range columns {
		ratio := Ratio{Base: c.base, Contender: c.contender}
		var all []float64
		for i := range r.Rows {
			x, ok := r.Rows[i].ratio(c.base, c.contender)
			if !ok {
				continue
			}
			if len(all) == 0 || x < ratio.Least {
				ratio.Least, ratio.LeastOf = x, r.Rows[i].Name
			}
			if x > ratio.Most {
				ratio.Most, ratio.MostOf = x, r.Rows[i].Name
			}
			all = append(all, x)
		}
		if len(all) > 0 {
			ratio.Mean, ratio.Queries = GeometricMean(all), len(all)
			r.Ratios = append(r.Ratios, ratio)
		}
	}
}

// Failed is the number of queries that failed or that promwarp answered
// differently.
func (r *Result) Failed() (n int) {
	for _, row := range r.Rows {
		if row.Wrong != nil || row.Error != "" {
			n++
		}
	}
	return n
}

// Others is the number of queries that VictoriaMetrics answered differently.
func (r *Result) Others() (n int) {
	for _, row := range r.Rows {
		if row.Other != nil {
			n++
		}
	}
	return n
}

func (r *Result) has(contender string) bool { return slices.Contains(r.Setup.Contenders, contender) }

// WriteJSON writes the result to a file.
func (r *Result) WriteJSON(file string) error {
	return WriteJSON(file, r)
}

// WriteJSON replaces a file at once, so that a run that is cut off leaves the one before.
func WriteJSON(file string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".part", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}
