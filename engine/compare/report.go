package compare

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/promwarp/promwarp/internal/instrument"
)

// Verdict is what a comparison came to.
type Verdict string

const (
	Same      Verdict = "same"
	Different Verdict = "different"
	// Undecided is the verdict where the answers differ and Prometheus's own would, too: its engine
	// gives several answers to the query, or the query makes much of last bits that may differ.
	Undecided Verdict = "undecided"
)

// Report is a verdict and what it is about.
type Report struct {
	Verdict    Verdict
	Why        string // of an undecided one
	Query      string
	Start, End time.Time
	Step       time.Duration // 0 for an instant query
	Difference *Difference   // nil if there is none
	Plan       func() string // who evaluated which part
}

type metrics struct {
	compared *prometheus.CounterVec
	skipped  *prometheus.CounterVec
	seconds  prometheus.Counter
}

// New returns a comparer that compares nothing until Set. busy says whether requests have the
// cores to themselves at present. reg may be nil.
func New(busy func() bool, logger *slog.Logger, reg prometheus.Registerer) *Comparer {
	c := &Comparer{busy: busy, running: map[*Comparison]bool{}}
	c.Set(Limits{})
	c.log = reports{logger: logger, often: rate.Sometimes{First: 10, Interval: 10 * time.Second}}
	f := instrument.With(reg)
	c.metrics = &metrics{
		compared: f.Counters("promwarp_compare_queries_total", "Queries that Prometheus's engine evaluated as well, by whether its answer was the same, different, or undecided where Prometheus's own answers differ.", "verdict"),
		skipped:  f.Counters("promwarp_compare_skipped_total", "Queries that were chosen to be compared and were not, by reason.", "reason"),
		seconds:  f.Counter("promwarp_compare_seconds_total", "Time that comparisons took, in seconds."),
	}
	f.GaugeOf("promwarp_compare_running", "Comparisons that run at present.", func() float64 { return float64(c.Running()) })
	for _, v := range []Verdict{Same, Different, Undecided} {
		c.metrics.compared.WithLabelValues(string(v))
	}
	return c
}

// reports are what is logged: ten lines, and one each ten seconds from there on.
type reports struct {
	logger *slog.Logger
	often  rate.Sometimes
}

// longestText is the most bytes of a text that are logged.
const longestText = 2000

func shortened(text string) string {
	if len(text) > longestText {
		return text[:longestText] + "…"
	}
	return text
}

// add logs a report of a difference.
func (l *reports) add(r *Report) {
	d := r.Difference
	if d == nil {
		return
	}
	l.often.Do(func() {
		fields := []any{"query", shortened(r.Query), "start", r.Start.UTC(), "end", r.End.UTC(), "step", r.Step, "what", d.What}
		if d.Series != "" {
			fields = append(fields, "series", shortened(d.Series), "at", time.UnixMilli(d.Time).UTC())
		}
		fields = append(fields, "promwarp", shortened(d.Ours), "prometheus", shortened(d.Theirs), "plan", r.Plan())
		if r.Verdict == Undecided {
			l.logger.Info("an answer differs from that of Prometheus's engine, which may not be wrong", append(fields, "why", r.Why)...)
			return
		}
		l.logger.Error("an answer differs from that of Prometheus's engine; please report this", fields...)
	})
}

// failed logs why a comparison could not be made.
func (l *reports) failed(err error) {
	l.often.Do(func() { l.logger.Error("a comparison failed; please report this", "err", fmt.Sprint(err)) })
}
