package report

import (
	"encoding/json"
	"math"
	"os"
	"slices"

	"github.com/promwarp/promwarp/internal/dataset"
)

// Result is what was measured, by this run and those before it in the same folder.
type Result struct {
	Setup  Setup    `json:"setup"`
	Stages []*Stage `json:"stages"`
	Wall   float64  `json:"wallSeconds"` // of the last run
}

// Setup is where and with what.
type Setup struct {
	Date      string            `json:"date"`
	Processor string            `json:"processor"`
	Cores     int               `json:"cores"`
	Versions  map[string]string `json:"versions"`
	Rounds    int               `json:"rounds"` // 0 for each stage's own
	Work      bool              `json:"work"`   // times are what servers ran on cores
}

// Stage is what was measured in one.
type Stage struct {
	Name       string           `json:"name"`
	Data       dataset.Stats    `json:"data"`
	Hours      int              `json:"hours"`
	End        int64            `json:"end"` // of the data, seconds since the epoch
	Rounds     int              `json:"rounds"`
	Contenders []string         `json:"contenders"` // in the order of the table
	Pairs      []Pair           `json:"pairs"`
	Details    bool             `json:"details"` // what cost more than time is of interest
	Rows       []*Row           `json:"rows"`
	PeakRSS    map[string]int64 `json:"peakRSSBytes"` // by server
}

// Pair are two contenders that are compared: how many times as long the first one takes.
type Pair struct{ Base, Contender, Title string }

// Row is what was found for one question.
type Row struct {
	Name   string          `json:"name"`
	Expr   string          `json:"query,omitempty"`
	Range  string          `json:"range,omitempty"`
	Step   string          `json:"step,omitempty"`
	Points int             `json:"points"`
	Costs  map[string]Cost `json:"costs"` // by contender
	// How an answer that must be Prometheus's differs, how that of a contender that only resembles
	// it does, and why the question was not asked at all.
	Wrong string `json:"wrong,omitempty"`
	Other string `json:"other,omitempty"`
	Error string `json:"error,omitempty"`
	Note  string `json:"note,omitempty"` // what answers were: "same" if they are Prometheus's
}

// Cost is what an answer took. All but Timing are medians or means, and 0 where they are not known.
type Cost struct {
	Timing
	First     float64 `json:"firstByteMs,omitempty"`
	CPU       float64 `json:"cpuMs,omitempty"`    // of the server on cores
	Behind    float64 `json:"behindMs,omitempty"` // of the server that it reads from, on cores
	Sent      int64   `json:"sentBytes,omitempty"`
	Read      int64   `json:"readBytes,omitempty"` // from the server that it reads from
	PerSecond float64 `json:"perSecond,omitempty"` // answers
}

// Stage returns the stage of a name, a new one if there is none.
func (r *Result) Stage(name string) *Stage {
	i := slices.IndexFunc(r.Stages, func(s *Stage) bool { return s.Name == name })
	if i < 0 {
		i = len(r.Stages)
		r.Stages = append(r.Stages, &Stage{Name: name, PeakRSS: map[string]int64{}})
	}
	return r.Stages[i]
}

// Row returns the row of a question, a new one if there is none.
func (s *Stage) Row(name string) *Row {
	i := slices.IndexFunc(s.Rows, func(r *Row) bool { return r.Name == name })
	if i < 0 {
		i = len(s.Rows)
		s.Rows = append(s.Rows, &Row{Name: name, Costs: map[string]Cost{}})
	}
	return s.Rows[i]
}

// Contend adds contenders, but for the ones that the stage has.
func (s *Stage) Contend(names ...string) {
	for _, name := range names {
		if !slices.Contains(s.Contenders, name) {
			s.Contenders = append(s.Contenders, name)
		}
	}
}

// Compare has the times of two contenders compared, under a title.
func (s *Stage) Compare(base, contender, title string) {
	if p := (Pair{base, contender, title}); !slices.Contains(s.Pairs, p) {
		s.Pairs = append(s.Pairs, p)
	}
}

// Failed is the number of questions that could not be asked or that were answered wrongly.
func (r *Result) Failed() (n int) {
	for _, s := range r.Stages {
		n += s.failed()
	}
	return n
}

func (s *Stage) failed() (n int) {
	for _, row := range s.Rows {
		if row.Wrong != "" || row.Error != "" {
			n++
		}
	}
	return n
}

// ratio is how many times as long base takes as contender, over all questions that both answered.
type ratio struct {
	Pair
	mean, least, most float64
	leastOf, mostOf   string
	baseMean, itsMean float64 // ms
	n                 int
}

func (s *Stage) ratio(p Pair) ratio {
	r := ratio{Pair: p, least: math.Inf(1)}
	var all, bases, its []float64
	for _, row := range s.Rows {
		a, b := row.Costs[p.Base].Median, row.Costs[p.Contender].Median
		if a <= 0 || b <= 0 || row.Costs[p.Base].PerSecond > 0 { // by many at once
			continue
		}
		if a/b < r.least {
			r.least, r.leastOf = a/b, row.Name
		}
		if a/b > r.most {
			r.most, r.mostOf = a/b, row.Name
		}
		all, bases, its = append(all, a/b), append(bases, a), append(its, b)
	}
	r.n, r.mean, r.baseMean, r.itsMean = len(all), GeometricMean(all), GeometricMean(bases), GeometricMean(its)
	return r
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
