// Package guard surrounds doors: it bounds what requests hold (bodies that come slowly or are
// large, clients that read nothing), measures and logs them, and survives their panics.
// Guard.Arrived comes first, for all doors; Guard.Door is around each.
package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/internal/tracing"
)

// Metrics measure requests, by door. They outlive an API, so that a reload
// does not reset them.
type Metrics struct {
	inFlight *prometheus.GaugeVec
	seconds  *prometheus.HistogramVec
	panics   prometheus.Counter
}

// NewMetrics returns metrics registered with reg, which may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := instrument.With(reg)
	return &Metrics{
		inFlight: f.Gauges("promwarp_http_requests_in_flight", "Requests being answered at present.", "door"),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "promwarp_http_request_duration_seconds",
			Help:                            "How long requests took, from their header to the end of the answer.",
			Buckets:                         []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"door", "code"}),
		panics: f.Counter("promwarp_http_panics_total", "Requests that ended in a panic; the log has the stack."),
	}
}

// Guard is what surrounds the doors of one API.
type Guard struct {
	Metrics *Metrics
	Logger  *slog.Logger
	// Memory is what bodies take leases of; nil is without limit.
	Memory *memory.Pool
	// MaxBodyBytes bounds a body.
	MaxBodyBytes int64
	// BodyTimeout is the longest that a body may take to arrive, and WriteTimeout the longest
	// that a client may read nothing of its answer.
	BodyTimeout, WriteTimeout time.Duration

	large atomic.Int64 // answers of more than a piece that are being written
}

// maxHeaderFields is the most fields of a request's header.
const maxHeaderFields = 1000

// Arrived refuses requests whose header has too many fields, and reports whether this is another,
// whose body must come in time. Browsers take no answer for another type than it says.
func (g *Guard) Arrived(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	n := 0
	for _, values := range r.Header {
		n += len(values)
	}
	if n > maxHeaderFields {
		http.Error(w, fmt.Sprintf("the request's header has more than the %d fields that promwarp takes", maxHeaderFields), http.StatusRequestHeaderFieldsTooLarge)
		return false
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = newTimedBody(w, r.Body, g.BodyTimeout)
	}
	return true
}

// Door measures, logs and bounds what answer does, and survives its panics.
func (g *Guard) Door(name string, answer http.HandlerFunc) http.Handler {
	return &door{guard: g, name: name, inFlight: g.Metrics.inFlight.WithLabelValues(name), answer: answer}
}

// door is one that is guarded.
type door struct {
	guard    *Guard
	name     string
	inFlight prometheus.Gauge
	answer   http.HandlerFunc
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	g := d.guard
	r, span := tracing.Receive(rw, r, d.name)
	w := g.newRecorder(rw, r)
	defer func() { w.writingEnded() }()
	start := time.Now()
	d.inFlight.Inc()
	defer func() {
		p := recover()
		if p != nil && p != http.ErrAbortHandler {
			g.Metrics.panics.Inc()
			stack := debug.Stack()
			if err, ok := p.(error); ok {
				if thrown, ok := errors.AsType[*parallel.Panic](err); ok {
					p, stack = thrown.Value, thrown.Stack
				}
			}
			g.Logger.Error("a request panicked; please report this", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(stack), "trace", tracing.ID(r.Context()))
			if w.code == 0 {
				promapi.Error(w, http.StatusInternalServerError, promapi.Internal, fmt.Sprintf("promwarp panicked: %v; its log has the stack", p))
				p = nil
			} else {
				p = http.ErrAbortHandler // so that half an answer is not taken for all
			}
		}
		w.deadline.move() // for what net/http still has to write
		d.inFlight.Dec()
		took := time.Since(start)
		g.Metrics.seconds.WithLabelValues(d.name, strconv.Itoa(w.status())).Observe(took.Seconds())
		if g.Logger.Enabled(r.Context(), slog.LevelDebug) {
			g.Logger.Debug("request", "method", r.Method, "path", r.URL.Path, "status", w.status(), "bytes", w.bytes, "took", took, "client", r.RemoteAddr, "trace", tracing.ID(r.Context()))
		}
		if span.IsRecording() {
			span.SetAttributes(attribute.Int("http.response.status_code", w.status()), attribute.Int64("http.response.body.size", w.bytes))
		}
		tracing.End(span, nil)
		if p != nil {
			panic(p)
		}
	}()
	if r.Body != nil && r.Body != http.NoBody {
		lease := g.Memory.Lease(memory.Requests)
		defer lease.Release()
		body := &leasedBody{ReadCloser: http.MaxBytesReader(w, r.Body, g.MaxBodyBytes), ctx: r.Context(), lease: lease, header: w.Header()}
		if r.ContentLength > g.MaxBodyBytes {
			body.tooLarge = &http.MaxBytesError{Limit: g.MaxBodyBytes}
		}
		r.Body = body
	}
	d.answer(w, r)
}

// NotePanic counts and logs the panic that err comes from, if it does.
func (g *Guard) NotePanic(err error) {
	if p, ok := errors.AsType[*parallel.Panic](err); ok {
		g.Metrics.panics.Inc()
		g.Logger.Error("a query panicked; please report this", "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
	}
}

// recorder notes what is written, and sees to it that clients that read nothing do not hold
// up the handler: after a write that failed, all fail.
type recorder struct {
	http.ResponseWriter
	code     int
	bytes    int64
	err      error // of a write
	body     *timedBody
	deadline writeDeadline

	guard        *Guard
	large        bool          // whether largeAnswer bytes were written, or are being
	writingEnded func()        // ends what asks for giveWay
	behind       time.Duration // by how much the client reads more slowly than minReadRate so far
	due          atomic.Int64  // when the client would have read all but the piece that is being written, ns since the epoch; 0 when none is
}

func (g *Guard) newRecorder(w http.ResponseWriter, r *http.Request) *recorder {
	body, _ := r.Body.(*timedBody)
	return &recorder{ResponseWriter: w, body: body, guard: g, writingEnded: func() {}, deadline: writeDeadline{
		c: http.NewResponseController(w), timeout: g.WriteTimeout, stream: r.ProtoMajor >= 2,
	}}
}

// status is the status that was sent; net/http sends 200 where none is given.
func (w *recorder) status() int {
	if w.code == 0 {
		return http.StatusOK
	}
	return w.code
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(code int) {
	if w.code == 0 && code >= 200 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	if w.err != nil {
		return 0, w.err
	}
	defer w.deadline.written()
	for written := 0; ; {
		piece := b[written:min(len(b), written+writePiece)]
		if !w.large && w.bytes+int64(len(piece)) >= largeAnswer {
			w.large = true
			w.guard.large.Add(1)
			end := w.guard.Memory.OnShortage(reclaimSlow, w.giveWay)
			w.writingEnded = func() { end(); w.guard.large.Add(-1) }
		}
		w.deadline.move()
		var n int
		var err error
		w.paced(func() int {
			n, err = w.ResponseWriter.Write(piece)
			return n
		})
		written += n
		w.bytes += int64(n)
		if w.err = err; err != nil || written >= len(b) {
			return written, err
		}
	}
}

// paced has write write to the client, and notes by how much that reads the bytes too slowly.
func (w *recorder) paced(write func() (bytes int)) {
	due := time.Now().Add(-w.behind)
	w.due.Store(due.UnixNano())
	n := write()
	w.due.Store(0)
	w.behind = max(0, time.Since(due)-time.Duration(n)*time.Second/minReadRate)
}

const (
	// reclaimSlow is the rank of memory that answers hold whose clients read slowly: it comes after
	// what costs no client its answer.
	reclaimSlow = 100
	// A client that reads fewer than minReadRate bytes a second may be behind by patience while there
	// is no memory for others.
	minReadRate = 256 << 10
	patience    = time.Second
	// largeAnswer is how many bytes make an answer one of those asked to give way: fewer than the 64 KiB
	// that a client of HTTP/2 may be sent before it reads.
	largeAnswer = 32 << 10
	// flushed is how many bytes of net/http's buffer are written when it is flushed, at most.
	flushed = 4 << 10
)

// giveWay cuts off the client if it reads nothing, or slowly, so that what the handler holds for the
// rest of the answer is free. How many bytes that is is not known: it says as many as large answers
// hold on average.
func (w *recorder) giveWay(bytes int64) int64 {
	due := w.due.Load()
	if due == 0 || time.Since(time.Unix(0, due)) < patience {
		return 0
	}
	_ = w.deadline.c.SetWriteDeadline(time.Unix(1, 0))
	parts := w.guard.Memory.Parts()
	if held := parts[string(memory.Evaluation)] + parts[string(memory.Answers)]; held > 0 {
		bytes = min(bytes, held/max(1, w.guard.large.Load()))
	}
	return bytes
}

// Flush implements http.Flusher, which remote read asks for.
func (w *recorder) Flush() {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	w.deadline.move()
	w.paced(func() int {
		_ = w.deadline.c.Flush()
		return flushed
	})
	w.deadline.written()
}

// SetReadDeadline is for http.ResponseController. It does not give a body more time.
func (w *recorder) SetReadDeadline(t time.Time) error {
	if w.body == nil || t.IsZero() {
		return w.deadline.c.SetReadDeadline(t)
	}
	w.body.bound(t)
	return nil
}

// SetWriteDeadline is for http.ResponseController. It does not let a client read nothing
// for longer than others.
func (w *recorder) SetWriteDeadline(t time.Time) error {
	w.deadline.bound(t)
	return nil
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
