package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/internal/dataset"
)

// result is what was measured, by this run and those before it in the same folder.
type result struct {
	Setup        setup                    `json:"setup"`
	Data         map[string]dataset.Stats `json:"data"`    // by jitter
	Queries      map[string]described     `json:"queries"` // by name
	Measurements []measurement            `json:"measurements"`
	Peaks        map[string]int64         `json:"peakRSSBytes"` // by peer and cores
	Wrong        []string                 `json:"wrong"`        // answers of promwarp
}

// setup is where and with what.
type setup struct {
	Date            string `json:"date"`
	Processor       string `json:"processor"`
	Cores           int    `json:"cores"`
	Order           []int  `json:"coresInOrder"` // the first of them are what a server on few has
	Go              string `json:"go"`
	Prometheus      string `json:"prometheus"`
	VictoriaMetrics string `json:"victoriametrics"`
	Rounds          int    `json:"rounds"`
	Work            bool   `json:"work,omitempty"` // times are those of servers on cores
}

// described is a query.
type described struct {
	Expr   string `json:"query"`
	Range  string `json:"range"`
	Step   string `json:"step"`
	Points int    `json:"points"` // of promwarp's answer
}

// key is what was measured.
type key struct {
	Query   string `json:"name"`
	Peer    string `json:"peer"`
	Cores   int    `json:"cores"`
	Variant string `json:"variant,omitempty"` // gzip; own or shared times
}

// measurement is how long it took.
type measurement struct {
	key
	report.Timing
}

const resultFile = "result.json"

// put keeps a measurement in place of an earlier one of the same.
func (r *result) put(m measurement) {
	for i := range r.Measurements {
		if r.Measurements[i].key == m.key {
			r.Measurements[i] = m
			return
		}
	}
	r.Measurements = append(r.Measurements, m)
}

// get is the median in ms, 0 if there is none.
func (r *result) get(k key) float64 {
	for i := range r.Measurements {
		if r.Measurements[i].key == k {
			return r.Measurements[i].Median
		}
	}
	return 0
}

// least is the least median of each query, of all numbers of cores.
func (r *result) least(peer string) map[string]float64 {
	least := map[string]float64{}
	for _, m := range r.Measurements {
		if m.Peer == peer && m.Variant == "" && (least[m.Query] == 0 || m.Median < least[m.Query]) {
			least[m.Query] = m.Median
		}
	}
	return least
}

// write writes what there is: into the folder for a later run, and where it is wanted.
func (b *bench) write() error {
	b.result.Data = b.data.Made
	if err := report.WriteJSON(filepath.Join(b.dir, stateFile), b.data); err != nil {
		return err
	}
	for _, file := range []string{filepath.Join(b.dir, resultFile), b.out} {
		if file == "" {
			continue
		}
		if err := report.WriteJSON(file, b.result); err != nil {
			return err
		}
	}
	if b.markdown == "" {
		return nil
	}
	file, err := os.Create(b.markdown)
	if err != nil {
		return err
	}
	defer file.Close()
	return b.result.tables(file)
}

// processor is the machine's, as it calls itself.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // there is none elsewhere
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
