// Package serve answers Prometheus's remote read: the other end of the protocol that
// remoteread speaks.
//
// A request comes in as snappy-compressed protobuf and holds queries. What a query
// matches comes from the storage as a selection of encoded chunks. It goes out as one
// message of samples or as frames of chunks, whichever the request asks for first.
// An answer has exactly the samples of the time range, in label order, each once, as a
// Prometheus over the same samples would send it; chunks that lie inside of the range
// go out as they are stored, chunks that reach beyond are cut.
//
// Start with Handler.ServeHTTP. request.go reads what is asked, handler.go finds what a query
// matches, external.go puts external labels back, stream.go and samples.go are the two forms of an
// answer, dialect.go knows which encodings a reader understands.
package serve

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/internal/queue"
)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &response{ResponseWriter: rw}
	form := "none" // until the request says
	err := h.serve(w, r, &form)
	if p, ok := errors.AsType[*parallel.Panic](err); ok {
		h.o.Logger.Error("a remote read panicked; please report this", "panic", p.Value, "stack", string(p.Stack))
	}
	switch {
	case err == nil:
	case w.begun:
		w.breakOff(err)
	default:
		f := faultOf(err)
		if f.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(f.retryAfter/time.Second)))
		}
		http.Error(w, err.Error(), f.status)
	}
	h.metrics.requests.WithLabelValues(form, outcomeOf(err, w.brokenOff)).Inc()
	h.metrics.bytes.Add(float64(w.bytes))
}

// serve answers r. Where it returns an error, that is still to be sent.
func (h *Handler) serve(w *response, r *http.Request, form *string) error {
	ctx, connection := r.Context(), http.NewResponseController(w.ResponseWriter)
	if h.o.Timeout > 0 {
		var cancel context.CancelFunc
		late := &fault{status: http.StatusServiceUnavailable, text: fmt.Sprintf("remote read took longer than query.timeout, which is %s", h.o.Timeout)}
		ctx, cancel = context.WithTimeoutCause(ctx, h.o.Timeout, late)
		defer cancel()
		deadline, _ := ctx.Deadline()
		// Reading the request and writing the answer fail soon after the deadline, so that a client
		// who does neither holds nothing for longer. net/http lifts that for the connection's next
		// request. Where it is not supported, as in tests, neither blocks.
		_ = connection.SetReadDeadline(deadline.Add(errorGrace / 10)) // so that the context is done before
		_ = connection.SetWriteDeadline(deadline.Add(errorGrace))
	}
	h.metrics.queries.Inc()
	defer h.metrics.queries.Dec()
	// A client that sends its request slowly holds no slot meanwhile.
	body, err := readBody(r)
	if err != nil {
		return err
	}
	_ = connection.SetReadDeadline(time.Time{}) // what net/http reads from now on shows whether the client goes away
	slot, err := h.o.Queue.Enter(ctx, h.o.Client(r))
	if err != nil {
		if r, ok := errors.AsType[*queue.Rejected](err); ok {
			const limits = "--storage.remote.read-concurrent-limit, --query.max-queue and --query.max-queue-time set the limits"
			err = &fault{status: http.StatusServiceUnavailable, text: fmt.Sprintf("too many remote reads at once: %v; %s", r, limits), retryAfter: r.RetryAfter()}
		}
		return failure(ctx, err)
	}
	defer slot.Leave()

	lease := h.o.Memory.Lease(memory.Requests)
	defer lease.Release()
	if n, err := decodedSize(body); err != nil {
		return failure(ctx, err)
	} else if n > smallRequest {
		if err := lease.Grow(ctx, decodedCost*int64(n)); err != nil {
			return failure(ctx, err)
		}
	}
	req, err := h.decodeRequest(ctx, body, lease)
	if err != nil {
		return failure(ctx, err)
	}
	if err := h.checkRegexps(req); err != nil {
		return failure(ctx, err)
	}
	reader, err := dialectOf(r)
	if err != nil {
		return err
	}
	typ, err := remote.NegotiateResponseType(req.AcceptedResponseTypes)
	if err != nil {
		return refuse("%w", err)
	}
	job := &job{h: h, slot: slot, external: h.o.ExternalLabels(), reader: reader, release: releaseOf(r.UserAgent())}
	if r.URL.Query().Get("warnings") == "header" {
		job.header = w.Header()
	}
	*form = formSamples
	answer := job.samples
	if typ == prompb.ReadRequest_STREAMED_XOR_CHUNKS {
		*form, answer = formChunks, job.chunks
	}
	return failure(ctx, h.unlessTooLarge(req, func() error { return answer(ctx, w, req) }))
}

// unlessTooLarge answers req, unless the same one alone needed more memory than there is a moment ago.
func (h *Handler) unlessTooLarge(req *prompb.ReadRequest, answer func() error) error {
	identity := func() (uint64, time.Time) { return h.keyOf(req) }
	if err := h.o.TooLarge.Refuses(identity, h.o.Memory); err != nil {
		return err
	}
	err := answer()
	if errors.As(err, new(*memory.BusyError)) && h.o.Alone != nil && h.o.Alone() {
		err = &memory.TooLargeError{Limit: h.o.Memory.Limit()}
	}
	if large, ok := errors.AsType[*memory.TooLargeError](err); ok {
		h.o.TooLarge.Note(identity, large)
	}
	return err
}

// keyOf is the same for requests for the same series over ranges of the same lengths, of which the
// first begins at start.
func (h *Handler) keyOf(req *prompb.ReadRequest) (key uint64, start time.Time) {
	if len(req.Queries) == 0 {
		return 0, time.Time{}
	}
	var of maphash.Hash
	of.SetSeed(h.o.TooLarge.Seed)
	first := req.Queries[0].StartTimestampMs
	_, _ = fmt.Fprint(&of, h.reduce != nil, req.AcceptedResponseTypes)
	for _, q := range req.Queries {
		_, _ = fmt.Fprint(&of, q.StartTimestampMs-first, q.EndTimestampMs-first, len(q.Matchers))
		if hints := q.Hints; hints != nil {
			_, _ = fmt.Fprintf(&of, "%q%d %d %t%q", hints.Func, hints.StepMs, hints.RangeMs, hints.By, hints.Grouping)
		}
		for _, m := range q.Matchers {
			_, _ = fmt.Fprintf(&of, "%d%q%q", m.Type, m.Name, m.Value)
		}
	}
	return of.Sum64(), time.UnixMilli(first)
}
