package plan

import (
	"fmt"
	"strings"
	"time"
)

// Timeline is the requests to an upstream that a query started, in the order in which they were
// sent. Times are since the first of them was sent, in µs.
type Timeline struct {
	Requests []Request `json:"requests"`
	AtOnce   int       `json:"at_once"`            // the most that were under way at once
	Unlisted int       `json:"unlisted,omitempty"` // further requests
	// Evaluated is what was evaluated while requests were under way.
	Evaluated []Evaluated `json:"evaluated,omitempty"`

	began time.Time // when the first request was sent
}

// Ahead is an evaluation of some steps, at which all samples from From to To (ms since the epoch,
// both included) had come, and not all others.
type Ahead struct {
	From, To     int64
	Steps        int
	Began, Ended time.Time
}

// Evaluated is an evaluation of steps over what had come of a range.
type Evaluated struct {
	From  int64 `json:"from"` // ms since the epoch, included as To is
	To    int64 `json:"to"`
	Began int64 `json:"began_us"`
	Ended int64 `json:"ended_us"`
	Steps int   `json:"steps"`
}

// NewTimeline returns the timeline of requests of which the first is sent at the given time.
func NewTimeline(began time.Time) *Timeline { return &Timeline{began: began} }

// Since is a time since the first request was sent, in µs.
func (t *Timeline) Since(at time.Time) int64 { return at.Sub(t.began).Microseconds() }

// Add adds what was evaluated ahead to a timeline, if there is one.
func (t *Timeline) Add(all []Ahead) {
	for _, a := range all {
		if t != nil {
			t.Evaluated = append(t.Evaluated, Evaluated{a.From, a.To, t.Since(a.Began), t.Since(a.Ended), a.Steps})
		}
	}
}

// Request is one request to an upstream, for some of a range.
type Request struct {
	From      int64  `json:"from"` // ms since the epoch, included as To is
	To        int64  `json:"to"`
	Sent      int64  `json:"sent_us"`
	FirstByte int64  `json:"first_byte_us"` // of the answer's body; that of the end if none came
	Ended     int64  `json:"ended_us"`
	Bytes     int64  `json:"bytes"` // of the answer's body, as it came
	Series    int    `json:"series"`
	Samples   int64  `json:"samples"`
	Outcome   string `json:"outcome"`
}

// tree renders the timeline, if there is one, a line each request.
func (t *Timeline) tree(b *strings.Builder) {
	if t == nil {
		return
	}
	fmt.Fprintf(b, "requests  at most %d at once", t.AtOnce)
	if t.Unlisted > 0 {
		fmt.Fprintf(b, "; %d more are not listed", t.Unlisted)
	}
	b.WriteByte('\n')
	for _, r := range t.Requests {
		fmt.Fprintf(b, "  %8s  first byte %8s  end %8s  %10d bytes  %6d series  %9d samples  %s to %s  %s\n",
			millis(r.Sent), millis(r.FirstByte), millis(r.Ended), r.Bytes, r.Series, r.Samples, date(r.From), date(r.To), r.Outcome)
	}
	if len(t.Evaluated) > 0 {
		b.WriteString("evaluated meanwhile\n")
	}
	for _, e := range t.Evaluated {
		fmt.Fprintf(b, "  %8s  end %8s  %6d steps  %s to %s\n", millis(e.Began), millis(e.Ended), e.Steps, date(e.From), date(e.To))
	}
}

func millis(us int64) string { return fmt.Sprintf("%.1fms", float64(us)/1000) }

// date renders a time in ms since the epoch.
func date(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
