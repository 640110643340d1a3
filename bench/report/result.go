// Package report turns measured times into a result, and a result into JSON and tables.
//
// A Result has stages, a Stage rows, one a question, and a Row what it cost each contender. What a
// later run measures is added to what is there. Start with Result; write.go makes tables of it.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

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
	Commit    string            `json:"commit,omitempty"` // of the promwarp that was measured
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
	Worst      bool             `json:"worst"`   // rows are kinds of values of a function; the slowest is shown
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

// Timing is how long something took, in ms.
type Timing struct {
	Median float64   `json:"medianMs"`
	Min    float64   `json:"minMs"`
	Max    float64   `json:"maxMs"`
	All    []float64 `json:"allMs"` // in the order of the rounds
}

// NewTiming describes some durations, at least one.
func NewTiming(ds []time.Duration) Timing {
	all := make([]float64, len(ds))
	for i, d := range ds {
		all[i] = float64(d.Microseconds()) / 1000
	}
	return Timing{Median: Median(all), Min: slices.Min(all), Max: slices.Max(all), All: all}
}

// Median of an even number is the mean of the two in the middle; NaN of none.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Limits say how often one thing is timed.
type Limits struct {
	Rounds int
	Budget time.Duration // for the rounds of one figure
}

// Median calls f once to warm up, unless that took more than the budget, and then up to Rounds
// times within the budget. It returns the median of how long it took, in ms.
func (l Limits) Median(f func() error) (float64, error) {
	var took []float64
	begin := time.Now()
	for n := 0; n <= l.Rounds; n++ {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(start).Nanoseconds())/1e6)
		if time.Since(begin) > l.Budget {
			break
		}
	}
	if len(took) > 1 {
		took = took[1:]
	}
	return Median(took), nil
}

// percentile is the value that a share of all does not exceed.
func (t Timing) percentile(share float64) float64 {
	v := slices.Sorted(slices.Values(t.All))
	return v[int(math.Ceil(share*float64(len(v))))-1]
}

// GeometricMean of positive numbers, NaN for none.
func GeometricMean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}

// Number is a number for reading, of about three digits, or nothing for 0 and what is none.
func Number(v float64) string {
	switch {
	case v == 0 || math.IsNaN(v):
		return ""
	case v < 0.095:
		return fmt.Sprintf("%.3f", v)
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Times is how many times as large a is as b, for reading, or nothing where one is not known.
func Times(a, b float64) string {
	if a == 0 || b == 0 || math.IsNaN(a/b) {
		return ""
	}
	return Number(a/b) + "×"
}

// milliseconds writes a time, nothing for none.
func milliseconds(ms float64) string {
	if ms <= 0 || math.IsNaN(ms) {
		return ""
	}
	return fmt.Sprintf("%.1f", ms)
}

// Table is a table of text: a head, and rows of as many cells or fewer.
type Table struct {
	Title string
	Left  int // columns that are flush left, the first ones
	Head  []string
	Rows  [][]string
}

// Add adds a row of cells.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Write writes the table as Markdown whose columns are aligned, for a terminal.
func (t *Table) Write(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n\n", t.Title)
	aligned := tabwriter.NewWriter(w, 0, 0, 0, ' ', 0)
	fmt.Fprint(aligned, strings.ReplaceAll(t.Markdown(), " |", "\t |"))
	return aligned.Flush()
}

// Markdown is the table without its title.
func (t *Table) Markdown() string {
	var b strings.Builder
	for i, row := range append([][]string{t.Head}, t.Rows...) {
		for _, cell := range row {
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", t.Left) + strings.Repeat(" ---: |", len(row)-t.Left) + "\n")
		}
	}
	return b.String()
}

// Processor is the machine's, as it calls itself.
func Processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // there is none elsewhere
	_, name, _ := strings.Cut(string(info), "model name")
	name, _, _ = strings.Cut(name, "\n")
	return cmp.Or(strings.TrimLeft(name, "\t :"), runtime.GOARCH)
}
