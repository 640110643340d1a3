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
}

func millis(us int64) string { return fmt.Sprintf("%.1fms", float64(us)/1000) }

// date renders a time in ms since the epoch.
func date(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
