package serve

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// DefaultFrameBytes is Prometheus's default of --storage.remote.read-max-bytes-in-frame.
const DefaultFrameBytes = 1 << 20

// Options are what a handler is made from. Only Queryable is required.
type Options struct {
	// Queryable is read from. Where its chunk queriers are selection.Queriers, chunks
	// are not copied before they are sent.
	Queryable storage.ChunkQueryable
	// ExternalLabels are added to series that lack them. nil means none.
	ExternalLabels func() labels.Labels

	// SampleLimit is the most samples that a query may bring in an answer of samples.
	// 0 means no limit, here and below.
	SampleLimit int
	// MaxQueries is the most queries of a request.
	MaxQueries int
	// Limits bound the regular expressions of a request, and the matchers and the grouping of a
	// query of it. The zero value has the defaults.
	Limits planner.Limits
	// Queue bounds how many requests are answered at once, and how many wait; nil does not.
	Queue *queue.Queue
	// Client says whose request it is, for whose turn it is in the queue. nil means that
	// all are of one client.
	Client func(*http.Request) string
	// FrameBytes is the size in bytes beyond which a series is continued in another
	// frame. 0 means DefaultFrameBytes.
	FrameBytes int
	// Memory is the process's memory, of which requests and answers of samples take leases;
	// nil is without limit.
	Memory *memory.Pool
	// TooLarge are the requests that needed more memory than there is, which are refused for a while;
	// nil are none.
	TooLarge *memory.TooLarge
	// Alone reports whether one request is answered and no other, so that one that finds no memory is
	// too large. nil does not say so.
	Alone func() bool
	// Timeout bounds a request from its header to the last byte of the answer.
	Timeout time.Duration

	// Logger gets warnings of the storage. Default none.
	Logger *slog.Logger
	// Registerer gets the handler's metrics; may be nil.
	Registerer prometheus.Registerer
}

// Handler is the door for remote read. It is safe for concurrent use.
type Handler struct {
	o       Options
	metrics *metrics
	reduce  Reduce // or nil
}

// New returns a handler.
func New(o Options) *Handler {
	if o.ExternalLabels == nil {
		o.ExternalLabels = labels.EmptyLabels
	}
	if o.FrameBytes <= 0 {
		o.FrameBytes = DefaultFrameBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Client == nil {
		o.Client = func(*http.Request) string { return "" }
	}
	f := instrument.With(o.Registerer)
	return &Handler{o: o, metrics: &metrics{
		// By the name that it has in a Prometheus.
		queries:  f.Gauge("prometheus_remote_read_handler_queries", "The current number of remote read queries that are either in execution or queued on the handler."),
		requests: f.Counters("promwarp_read_requests_total", "Remote read requests by form of the answer and outcome.", "form", "outcome"),
		bytes:    f.Counter("promwarp_read_bytes_total", "Bytes of answers to remote readers."),
	}}
}

// Reducing returns a handler that answers as h does, with the same limits and metrics, but
// sends of each query what reduce makes of it. Limits on samples count what is sent.
func (h *Handler) Reducing(reduce Reduce) *Handler {
	return &Handler{o: h.o, metrics: h.metrics, reduce: reduce}
}

// Query is one query of a request.
type Query struct {
	// MinT and MaxT bound the samples that are sent, in ms, both included.
	MinT, MaxT int64
	// Start and End are the query's own time range, in ms, both included. A reader that has the
	// newest samples itself lets that end before its hints do.
	Start, End int64
	// Reader is the release of the Prometheus that reads; zero for any other reader.
	Reader Release
	// Hints say what the reader does with the samples; nil where it does not say.
	Hints *storage.SelectHints
	// Matchers are what the selection was found by: as the reader sent them, but without the
	// values of external labels, which are not stored.
	Matchers []*labels.Matcher
	// External are the labels that series which lack them get before they are sent.
	External labels.Labels
}

// Reduce returns what a reader gets in place of sel, the series that q matches: series in
// label order without external labels. sel itself is sent as a Handler without Reduce sends it.
// release, where it is not nil, is called once what was returned has been sent, before sel is
// closed. An error is the answer to the whole request.
type Reduce func(ctx context.Context, q Query, sel *selection.Selection) (reduced *selection.Selection, release func(), err error)

// WarningHeader is the header of an answer that says what the storage warned of, to a reader that asks by
// warnings=header: as long as nothing of the answer is sent, so of the first query. Remote read itself has
// no place for it.
const WarningHeader = "Promwarp-Warning"

// job answers one request.
type job struct {
	h        *Handler
	slot     *queue.Slot // which is given back at the latest when the request has ended
	header   http.Header // of the answer, for warnings; nil for a reader that did not ask for these
	external labels.Labels
	reader   dialect
	release  Release
}

// found is what a query matches, while its querier is open.
type found struct {
	sel        *selection.Selection
	mint, maxt int64 // ms, both included
	onlyLabels bool  // whether the reader looks at nothing else
}

// holds reports whether c lies in range.
func (f found) holds(c selection.Chunk) bool { return c.MinT >= f.mint && c.MaxT <= f.maxt }

// selectChunks returns what matchers match, undecoded.
func (f found) selectChunks(ctx context.Context, q storage.ChunkQuerier, hints *storage.SelectHints, matchers []*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	if s, ok := q.(selection.Querier); ok {
		return s.SelectChunks(ctx, hints, matchers...)
	}
	// A database need not cut chunks, as they are cut here.
	whole := storage.SelectHints{Start: f.mint, End: f.maxt}
	if hints != nil {
		whole = *hints
	}
	whole.DisableTrimming = true
	return selection.FromChunkSeriesSet(ctx, q.Select(ctx, true, &whole, matchers...), 0)
}

// query calls use with what q matches, and closes the querier after that.
func (j *job) query(ctx context.Context, q *prompb.Query, use func(found) error) (err error) {
	matchers, err := matchersOf(q.Matchers, j.external)
	if err != nil {
		return err
	}
	querier, err := j.h.o.Queryable.ChunkQuerier(q.StartTimestampMs, q.EndTimestampMs)
	if err != nil {
		return err
	}
	defer func() {
		if err := querier.Close(); err != nil {
			j.h.o.Logger.Warn("Error on chunk querier close", "err", err)
		}
	}()
	hints := hintsOf(q.Hints)
	f := found{onlyLabels: hints != nil && hints.Func == "series"}
	f.mint, f.maxt = selection.Bounds(hints, q.StartTimestampMs, q.EndTimestampMs)
	sel, ws, err := f.selectChunks(ctx, querier, hints, matchers)
	for _, w := range ws {
		j.h.o.Logger.Warn("Warnings on remote read query", "warning", w)
		if j.header != nil {
			j.header.Add(WarningHeader, w.Error())
		}
	}
	if err != nil {
		return err
	}
	if h := j.h; h.reduce != nil {
		asked := Query{
			MinT: f.mint, MaxT: f.maxt, Start: q.StartTimestampMs, End: q.EndTimestampMs,
			Reader: j.release, Hints: hints, Matchers: matchers, External: j.external,
		}
		var release func()
		if sel, release, err = h.reduce(ctx, asked, sel); err != nil {
			return err
		}
		if release != nil {
			defer release()
		}
	}
	f.sel = sel
	return use(f)
}

// hintsOf returns hints, which may be nil, in the storage's form.
func hintsOf(h *prompb.ReadHints) *storage.SelectHints {
	if h == nil {
		return nil
	}
	return &storage.SelectHints{
		Start: h.StartMs, End: h.EndMs, Step: h.StepMs, Range: h.RangeMs,
		Func: h.Func, Grouping: h.Grouping, By: h.By,
	}
}

// matchersOf returns what a query matches by. A matcher that asks for an external label's
// very value asks the storage for series without that label: they are those that get it.
func matchersOf(in []*prompb.LabelMatcher, external labels.Labels) ([]*labels.Matcher, error) {
	stored := slices.Clone(in)
	for i, m := range in {
		if m.Type == prompb.LabelMatcher_EQ && m.Value == external.Get(m.Name) {
			stored[i] = &prompb.LabelMatcher{Name: m.Name}
		}
	}
	return remote.FromLabelMatchers(stored)
}
