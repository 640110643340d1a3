package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
)

// rig has a GPU as promwarp has it, and times subjects on it and on the cores.
type rig struct {
	report.Limits
	gpus            *placement.Placer
	series, samples int // of each series
	names           *regexp.Regexp
	log             func(format string, args ...any)
}

// Row is how long one subject takes, medians in ms.
type Row struct {
	Name    string `json:"name,omitempty"`
	Query   string `json:"query,omitempty"`
	Fields  string `json:"fields,omitempty"`       // of a resample request
	Step    int    `json:"step_minutes,omitempty"` // if it is not one
	Series  int    `json:"series"`
	Samples int64  `json:"samples"`
	Bytes   int64  `json:"chunk_bytes,omitempty"`
	Runs    int64  `json:"runs,omitempty"`
	Values  int64  `json:"values,omitempty"` // of the answer

	Resident    float64 `json:"gpu_resident_ms,omitempty"`
	NotResident float64 `json:"gpu_not_resident_ms,omitempty"`
	Cores       float64 `json:"cores_ms"`
	LinkShare   float64 `json:"link_share,omitempty"` // of the bytes a second that the link copies, not resident

	Declined string `json:"declined,omitempty"` // why it is left to the cores
	Failed   string `json:"failed,omitempty"`
}

// subject is what is timed: over selections, on the cores or on the GPU.
type subject struct {
	over []*selection.Selection
	ask  func(onGPU bool) error
}

// sizes notes what is read.
func (row *Row) sizes(over []*selection.Selection) {
	for _, s := range over {
		row.Series += s.NumSeries()
		row.Samples += s.NumSamples()
		for i := range s.NumSeries() {
			for _, c := range s.Chunks(i) {
				row.Bytes += int64(c.Len)
			}
		}
	}
}

// forget takes what is read off the GPUs.
func (r *rig) forget(over []*selection.Selection) {
	for _, s := range over {
		r.gpus.Forget(s)
	}
}

// onCores times the subject on the cores.
func (r *rig) onCores(row *Row, s subject) (err error) {
	row.Cores, err = r.Median(func() error { return s.ask(false) })
	return err
}

// onGPU times the subject on the GPU, with its chunks in page-locked memory of the host and then
// with its chunks there already.
func (r *rig) onGPU(row *Row, s subject) (err error) {
	row.NotResident, err = r.Median(func() error {
		r.forget(s.over)
		return s.ask(true)
	})
	if err == nil {
		row.Resident, err = r.Median(func() error { return s.ask(true) })
	}
	if err == nil {
		row.LinkShare = float64(row.Bytes) / (row.NotResident / 1000) / r.gpus.Report().Constants.Link
	}
	return err
}

// each measures all rows whose names match. One that fails is noted in its row and in the error.
func (r *rig) each(ctx context.Context, rows []Row, measure func(ctx context.Context, i int, row *Row) error, save func([]Row)) error {
	var failed []error
	var done []Row
	for i, row := range rows {
		if !r.names.MatchString(row.Name) || ctx.Err() != nil {
			continue
		}
		if err := measure(ctx, i, &row); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", row.Name, err))
			row.Failed = err.Error()
		}
		done = append(done, row)
		save(slices.Clone(done))
		r.log("%+v", row)
	}
	return errors.Join(failed...)
}

// tableOf is rows for reading.
func tableOf(title string, rows []Row) *report.Table {
	t := &report.Table{Title: title, Left: 1, Head: []string{
		"", "series", "M samples", "M runs", "M values", "GPU, resident", "G samples/s", "GPU, not resident", "share of the link", "cores", "cores / resident",
	}}
	millions := func(n int64) string { return report.Number(float64(n) / 1e6) }
	for _, r := range rows {
		rate, share, name := "", "", r.Name
		if r.Query != "" {
			name = "`" + r.Query + "`"
		}
		if r.Step > 0 {
			name += fmt.Sprintf(" every %d m", r.Step)
		}
		if r.Declined != "" {
			name += " (on cores: " + r.Declined + ")"
		}
		if r.Resident > 0 {
			rate, share = report.Number(float64(r.Samples)/r.Resident/1e6), fmt.Sprintf("%.0f %%", 100*r.LinkShare)
		}
		t.Add(name, fmt.Sprint(r.Series), millions(r.Samples), millions(r.Runs), millions(r.Values), report.Number(r.Resident), rate,
			report.Number(r.NotResident), share, report.Number(r.Cores), report.Times(r.Cores, r.Resident))
	}
	return t
}
