package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// Explanation says how a query is evaluated. It marshals to JSON.
type Explanation struct {
	Query    string `json:"query"`
	Executor string `json:"executor"` // the mode asked for
	Exact    Exact  `json:"exact"`
	// Tolerance is how far values of some function of the query may be from Prometheus's, relative.
	Tolerance float64 `json:"tolerance,omitempty"`
	Start     int64   `json:"start"` // ms since the epoch
	End       int64   `json:"end"`
	Interval  int64   `json:"interval"` // ms, 0 for an instant query
	Analyzed  bool    `json:"analyzed"` // whether the query was run
	Total     int64   `json:"total_us,omitempty"`
	// Of a query that was run, the time that the request waited for its turns, the time until all samples
	// were there, the rest of the total, and encoding and sending an answer that has the explanation.
	Waited    int64 `json:"waited_us,omitempty"`
	Fetched   int64 `json:"fetched_us,omitempty"`
	Evaluated int64 `json:"evaluated_us,omitempty"`
	Encoded   int64 `json:"encoded_us,omitempty"`
	// Cache is what getting the samples took; nil when none were asked of a cache.
	Cache *CacheWork `json:"cache,omitempty"`
	// Upstreams says the same of each upstream where there are several.
	Upstreams []UpstreamWork `json:"upstreams,omitempty"`
	// Settings say how the upstreams are set, a line each, and what is not known of that.
	Settings []string `json:"settings,omitempty"`
	// GPU says why this machine has none that can be used, where leaves were to be offered to one.
	GPU  string    `json:"gpu,omitempty"`
	Root *Decision `json:"plan"`
	// Ahead is what was evaluated before all samples had come. The timeline has it.
	Ahead []Ahead `json:"-"`
}

// UpstreamWork is what getting samples of one of several upstreams took.
type UpstreamWork struct {
	Name    string     `json:"name"`
	Cache   *CacheWork `json:"cache,omitempty"`
	Failure string     `json:"failure,omitempty"` // why the answer is without the upstream
}

// CacheWork says how much of what a query read was kept, and what fetching the
// rest took.
type CacheWork struct {
	TilesKept     int64 `json:"tiles_kept"`
	TilesSubsumed int64 `json:"tiles_subsumed"` // kept, but of a wider selector
	TilesFetched  int64 `json:"tiles_fetched"`
	TilesRead     int64 `json:"tiles_read,omitempty"` // from disk, of those kept
	Fetches       int64 `json:"fetches"`              // requests to the upstream
	SharedFetches int64 `json:"shared_fetches"`       // requests that another query had started already
	FetchedBytes  int64 `json:"fetched_bytes"`        // of encoded chunks and labels that the requests brought
	WaitMicros    int64 `json:"wait_us"`              // for requests, added up over selectors
	// Timeline is the requests of the fetches, which fetch long ranges piece by piece; nil if
	// there were none.
	Timeline *Timeline `json:"timeline,omitempty"`
}

// Decision says who evaluates one node of the query's expression, and why.
type Decision struct {
	Expr     string  `json:"expr"` // see Render
	Kind     string  `json:"kind"`
	Executor string  `json:"executor"`
	Reason   string  `json:"reason,omitempty"` // one plain sentence; always there when the executor is Prometheus's engine
	Steps    int     `json:"steps,omitempty"`
	Work     *Work   `json:"work,omitempty"`
	Choice   *Choice `json:"choice,omitempty"`
	// Node is what the node took together with those below it.
	Node *NodeWork `json:"node,omitempty"`
	// Remembered says of an aggregation whose results are remembered how many steps
	// were.
	Remembered *KeptSteps  `json:"remembered,omitempty"`
	Children   []*Decision `json:"children,omitempty"`

	// Text is what Expr is rendered from, and Pos where it stands in the query.
	Text Text                   `json:"-"`
	Pos  posrange.PositionRange `json:"-"`
	// Own says that Prometheus's engine evaluates the node for a reason of its
	// own, rather than because of what is below it.
	Own bool `json:"-"`
	// Idle says that the node reads no samples, so that there is nothing for an executor.
	Idle bool `json:"-"`
}

// KeptSteps are the steps of an aggregation of which the results were remembered from
// earlier queries, and of steps that were evaluated.
type KeptSteps struct {
	Kept      int `json:"kept_steps"`
	Evaluated int `json:"evaluated_steps"`
	// Ahead are those of the evaluated steps that were before all samples had come.
	Ahead int `json:"ahead_steps,omitempty"`
}

// String is the steps in words.
func (k *KeptSteps) String() string {
	s := fmt.Sprintf("%d steps kept from earlier queries, %d evaluated", k.Kept, k.Evaluated)
	if k.Ahead > 0 {
		s += fmt.Sprintf(", %d of them during the fetch", k.Ahead)
	}
	return s
}

// Executors, as explanations name them.
const (
	OnCPU        = "cpu"
	OnGPU        = "gpu"
	OnPrometheus = "prometheus"
)

// Tree renders the explanation as an indented tree, one node a line.
func (e *Explanation) Tree() string {
	var b strings.Builder
	fmt.Fprintf(&b, "query     %s\nexecutor  %s\n", e.Query, e.Executor)
	if e.Exact == Bits {
		fmt.Fprintf(&b, "exact     %s\n", e.Exact)
	}
	if e.Analyzed {
		fmt.Fprintf(&b, "total     %s\n", time.Duration(e.Total)*time.Microsecond)
	}
	if c := e.Cache; c != nil {
		fmt.Fprintf(&b, "cache     %s\n", c)
		c.Timeline.tree(&b)
	}
	for _, u := range e.Upstreams {
		fmt.Fprintf(&b, "upstream  %s", u.Name)
		if u.Cache != nil {
			fmt.Fprintf(&b, ": %s", u.Cache)
		}
		if u.Failure != "" {
			fmt.Fprintf(&b, "  -- %s", u.Failure)
		}
		b.WriteByte('\n')
		if u.Cache != nil {
			u.Cache.Timeline.tree(&b)
		}
	}
	for _, s := range e.Settings {
		fmt.Fprintf(&b, "settings  %s\n", s)
	}
	if e.GPU != "" {
		fmt.Fprintf(&b, "gpu       %s\n", e.GPU)
	}
	b.WriteByte('\n')
	if e.Root != nil {
		e.Root.tree(&b, 0)
	}
	return b.String()
}

// Tree renders a decision and those below it as an indented tree, one node a line.
func (d *Decision) Tree() string {
	var b strings.Builder
	d.tree(&b, 0)
	return b.String()
}

func (c *CacheWork) String() string {
	return fmt.Sprintf("%d tiles kept, %d of a wider selector, %d fetched; %d fetches brought %d bytes, %d shared with other queries; waited %s",
		c.TilesKept, c.TilesSubsumed, c.TilesFetched, c.Fetches, c.FetchedBytes, c.SharedFetches, time.Duration(c.WaitMicros)*time.Microsecond)
}

func (d *Decision) tree(b *strings.Builder, depth int) {
	fmt.Fprintf(b, "%s%-10s  %s", strings.Repeat("  ", min(depth, maxIndent)), d.Executor, d.Expr)
	if d.Reason != "" {
		fmt.Fprintf(b, "  -- %s", d.Reason)
	}
	if c := d.Choice; c != nil {
		fmt.Fprintf(b, "  [estimated %s on the cores, %s on a GPU; took %s]",
			time.Duration(c.CPU)*time.Microsecond, time.Duration(c.GPU)*time.Microsecond, time.Duration(c.Took)*time.Microsecond)
		if c.Stages != nil {
			others := ""
			if c.Parts > 0 {
				others = fmt.Sprintf(" and %d others", c.Parts-1)
			}
			fmt.Fprintf(b, "  [GPU %d%s: %s]", *c.Device, others, c.Stages)
		}
	}
	if k := d.Remembered; k != nil {
		fmt.Fprintf(b, "  [%s]", k)
	}
	if w := d.Work; w != nil {
		fmt.Fprintf(b, "  [%d series, %d chunks, %d samples, %d bytes decoded, %d samples kept decoded; fetched in %s, evaluated in %s; %d points out]",
			w.Series, w.Chunks, w.Samples, w.Bytes, w.Kept,
			time.Duration(w.FetchMicros)*time.Microsecond, time.Duration(w.EvalMicros)*time.Microsecond, w.ResultPoints)
		if w.Digested > 0 {
			fmt.Fprintf(b, "  [%d chunks answered from digests]", w.Digested)
		}
		if g := w.Device; g != nil {
			fmt.Fprintf(b, "  [on GPUs: %d windows, %d chunks, %d samples, %d bytes decoded, in %s]",
				g.Leaves, g.Chunks, g.Samples, g.Bytes, time.Duration(g.Micros)*time.Microsecond)
		}
	}
	b.WriteByte('\n')
	for _, c := range d.Children {
		c.tree(b, depth+1)
	}
}

// maxIndent is the most levels by which a line of the tree is indented.
const maxIndent = 200

// Render sets the expressions of d and of all below it. One that takes up more than MaxText
// bytes of the query is cut: it is as much of the query itself, and an ellipsis.
func (d *Decision) Render(query string) {
	d.Walk(func(d *Decision) {
		start, end := int(d.Pos.Start), int(d.Pos.End)
		if end-start <= MaxText || start < 0 || end > len(query) {
			d.Expr = render(d.Text)
			return
		}
		d.Expr = strings.ToValidUTF8(query[start:start+MaxText], "") + "…"
	})
}

// Walk calls f for d and everything below it.
func (d *Decision) Walk(f func(*Decision)) {
	f(d)
	for _, c := range d.Children {
		c.Walk(f)
	}
}

// Choice says between what was chosen for a window and what aggregates it, and how
// long that took.
type Choice struct {
	CPU    int64         `json:"estimated_cpu_us"`
	GPU    int64         `json:"estimated_gpu_us"` // waiting included
	Took   int64         `json:"took_us"`
	Device *int          `json:"gpu,omitempty"` // the driver's number of the GPU that evaluated it
	Stages *DeviceStages `json:"stages,omitempty"`
	// Parts is how many GPUs evaluated a part of it each, 0 for one that evaluated it all. Device is the one
	// whose part was expected to take longest.
	Parts int `json:"gpus,omitempty"`
}

// DeviceStages say what a GPU did, stage by stage. Copying runs beside the kernels,
// so the parts add up to more than the whole.
type DeviceStages struct {
	Batches  int   `json:"batches"`
	Copied   int64 `json:"copied_bytes"`   // chunks, and where they are
	Resident int64 `json:"resident_bytes"` // of chunks that were there already
	Waited   int64 `json:"waited_us"`      // for others to be done, and for Compiled
	Compiled int64 `json:"-"`              // kernels of custom aggregates
	Prepare  int64 `json:"prepare_us"`     // on the cores
	Copy     int64 `json:"copy_us"`
	Decode   int64 `json:"decode_us"`
	Window   int64 `json:"window_us"`
	Reduce   int64 `json:"fold_us"`
	Result   int64 `json:"result_us"`
	// CopyRate is what copying reached in bytes a second.
	CopyRate float64 `json:"copy_bytes_per_second"`
}

func (s *DeviceStages) String() string {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return fmt.Sprintf("%d batches, %d bytes copied and %d there already; waited %s, prepared %s, copied %s (%.1f GB/s), decoded %s, windowed %s, aggregated %s, fetched %s",
		s.Batches, s.Copied, s.Resident, us(s.Waited), us(s.Prepare), us(s.Copy), s.CopyRate/1e9,
		us(s.Decode), us(s.Window), us(s.Reduce), us(s.Result))
}

// Timeline is the requests to an upstream that a query started, in the order in which they were
// sent. Times are since the first of them was sent, in µs.
type Timeline struct {
	Requests []Request `json:"requests"`
	AtOnce   int       `json:"at_once"`            // the most that were under way at once
	Unlisted int       `json:"unlisted,omitempty"` // further requests
	// Evaluated is what was evaluated while requests were under way.
	Evaluated []Evaluated `json:"evaluated,omitempty"`

	Began time.Time `json:"-"` // when the first request was sent
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

// Since is a time since the first request was sent, in µs.
func (t *Timeline) Since(at time.Time) int64 { return at.Sub(t.Began).Microseconds() }

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
