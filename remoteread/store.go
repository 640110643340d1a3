package remoteread

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/util/annotations"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/remoteread/stores"
	"github.com/promwarp/promwarp/selection"
)

// Store fetches from a store of Thanos as a Client does from a server with remote read: in pieces, with its
// retries, limits and metrics. It lists labels, too. It asks the store now and then what it is, until it is
// closed.
type Store struct {
	*Client
	store *stores.Store
	nudge chan struct{}
	end   func()
	ended sync.WaitGroup

	relabelled atomic.Pointer[func()] // see OnRelabelled
}

// How often a store is asked what it is, and while it is away, and how long it may take.
const (
	infoEvery   = 30 * time.Second
	infoAway    = 5 * time.Second
	infoTimeout = 5 * time.Second
)

// NewStore returns a client of a store. Of o, what is about external labels has no use: stores match series
// by theirs.
func NewStore(cfg stores.Config, o Options) (*Store, error) {
	o = o.withDefaults()
	of, err := stores.New(cfg, o.MaxFrameBytes)
	if err != nil {
		return nil, err
	}
	c := commonClient(cfg.String(), cfg.Timeout, o)
	c.store, c.upstream = of, cfg.Address
	c.secrets = secretsOf(&config.RemoteReadConfig{URL: &commonconfig.URL{URL: &url.URL{}}, Headers: cfg.Headers})
	c.chunksAlone.Store(true)
	return &Store{Client: c, store: of, nudge: make(chan struct{}, 1), end: func() {}}, nil
}

// Start asks the store what it is, and keeps asking until Close.
func (s *Store) Start(ctx context.Context) error {
	err := s.Probe(ctx)
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.ended.Go(func() {
		for away := err != nil; ; {
			wait := infoEvery
			if away {
				wait = infoAway
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			case <-s.nudge:
			}
			away = parallel.Rescue(func() error { return s.Probe(ctx) }) != nil
		}
	})
	return err
}

// Nudge has the store asked soon.
func (s *Store) Nudge() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// Close ends asking, and closes the connection.
func (s *Store) Close() {
	s.end()
	s.ended.Wait()
	_ = s.store.Close()
}

// OnRelabelled has f called when the one set of external labels that the store has becomes another one, as a
// sidecar's or a ruler's may. Of many sets some come and go.
func (s *Store) OnRelabelled(f func()) { s.relabelled.Store(&f) }

// Probe asks the store what it is.
func (s *Store) Probe(ctx context.Context) error {
	was, _ := s.Facts()
	ctx, cancel := context.WithTimeoutCause(ctx, infoTimeout, errStalled)
	defer cancel()
	is, err := s.store.Info(ctx)
	if err != nil {
		return s.called(ctx, err)
	}
	s.reach.noteStore(nil)
	if f := s.relabelled.Load(); f != nil && len(was.Labels) == 1 && len(is.Labels) == 1 && !labels.Equal(was.Labels[0], is.Labels[0]) {
		(*f)()
	}
	return nil
}

// Facts are what the store told last; ok says whether it has.
func (s *Store) Facts() (f stores.Facts, ok bool) { return s.store.Facts() }

// Complete is the time, in ms, before which the store misses nothing that is still to come.
func (s *Store) Complete() int64 {
	f, _ := s.Facts()
	return f.Complete
}

// LabelNames returns the names of the labels of series that matchers match in [mint, maxt].
func (s *Store) LabelNames(ctx context.Context, mint, maxt int64, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return s.list(ctx, mint, maxt, hints, matchers, s.store.LabelNames)
}

// LabelValues returns the values of label name of series that matchers match in [mint, maxt].
func (s *Store) LabelValues(ctx context.Context, mint, maxt int64, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return s.list(ctx, mint, maxt, hints, matchers, func(ctx context.Context, q stores.Question, limit int) (values, warnings []string, err error) {
		return s.store.LabelValues(ctx, name, q, limit)
	})
}

// list asks for a list, which is sorted and has each item once.
func (s *Store) list(ctx context.Context, mint, maxt int64, hints *storage.LabelHints, matchers []*labels.Matcher, ask func(context.Context, stores.Question, int) (list, warnings []string, err error)) ([]string, annotations.Annotations, error) {
	ms, err := remote.ToLabelMatchers(matchers)
	if err != nil {
		return nil, nil, fmt.Errorf("the store %s: %w", s.upstream, err)
	}
	limit := 0
	if hints != nil {
		limit = hints.Limit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errStalled)
	defer cancel()
	all, warnings, err := ask(ctx, stores.Question{MinT: mint, MaxT: maxt, Matchers: ms, Whole: !s.store.Partial}, limit)
	if err != nil {
		return nil, nil, s.called(ctx, err)
	}
	slices.Sort(all)
	return slices.Compact(all), warned(warnings), nil
}

// warned are a store's warnings, as it says them.
func warned(texts []string) (ws annotations.Annotations) {
	for _, text := range texts {
		ws.Add(errors.New(text))
	}
	return ws
}

// warnings collects those of the pieces of a fetch.
type warnings struct {
	mu  sync.Mutex
	all annotations.Annotations
}

func (w *warnings) add(texts []string) {
	if len(texts) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Merge(warned(texts))
}

// sendStore is send for a store: it asks r's question, and reads the answer to the end.
func (c *Client) sendStore(parent context.Context, r *ride) (err error) {
	parent, span := tracing.Start(parent, "thanos.Store/Series", trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("upstream", c.name))
	}
	defer func() { tracing.End(span, err) }()
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	stall := time.AfterFunc(c.timeout, func() { cancel(errStalled) })
	defer stall.Stop()

	part := &answer.Part{Ctx: ctx, Asked: r.q.matchers, Expected: r.q.fetch.Expected, Count: r.set}
	in := c.answers.NewStore(part)
	var unusable error
	q := stores.Question{MinT: r.q.mint, MaxT: r.q.maxt, Matchers: r.q.ms, Whole: r.q.fetch.Whole || !c.store.Partial}
	err = c.store.Series(ctx, q, func(message []byte) error {
		stall.Stop()
		if r.wire == 0 {
			r.firstByte = time.Now()
		}
		r.wire += int64(len(message))
		if unusable = in.Message(message); unusable == nil && r.wire > 2*c.answers.MaxBytes+wireSlack {
			unusable = fmt.Errorf("%w: %d bytes have come", selection.ErrTooLarge, r.wire)
		}
		stall.Reset(c.timeout)
		return unusable
	})
	stall.Stop()
	c.metrics.bytes.Add(float64(r.wire))
	if err == nil {
		err = in.Finish()
		unusable = err
	}
	switch {
	case err == nil:
		c.reach.noteStore(nil)
		r.q.warnings.add(in.Warnings)
		r.sel = part.Sel
		return nil
	case parent.Err() != nil || errors.Is(context.Cause(ctx), errStalled):
		return c.called(ctx, err)
	case memory.Exhausted(err):
		return err // the store is not to blame
	case unusable != nil:
		return c.content(unusable)
	case r.wire > 0:
		return c.cutOff(ctx, err)
	}
	return c.called(ctx, err)
}

// NoStore reports whether err, of a call, says that what answers at the address is no store of Thanos.
func NoStore(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.grpc && e.outcome == outcomeContentType
}

// cutOff is for an answer that began and ended with err.
func (c *Client) cutOff(ctx context.Context, err error) *Error {
	if e := c.called(ctx, err); e.outcome != outcomeConnection {
		return e
	}
	return c.fail(outcomeCutOff, true, c.clean("the answer was cut off", err), "see the log of the store and of proxies on the way")
}

const (
	checkAddress  = "check that the address is that of the gRPC server (--grpc-address) of a sidecar, store gateway, receiver, ruler or Querier"
	adviceRefused = "see the store's log and its limits, or narrow the selector or the time range"
)

// called is for a call that gRPC says has failed.
func (c *Client) called(ctx context.Context, err error) *Error {
	cause := context.Cause(ctx)
	s := grpcstatus.Convert(err)
	text := strings.TrimSpace(c.secrets.line([]byte(s.Message())))
	failed := &cleaned{text: fmt.Sprintf("gRPC status %s: %s", s.Code(), text), err: err}
	e := func() *Error {
		switch {
		case errors.Is(cause, errStalled):
			return c.fail(outcomeTimeout, false, fmt.Errorf("nothing came in time: %w", context.DeadlineExceeded), "raise remote_timeout, or narrow the selector or the time range")
		case ctx.Err() != nil:
			return c.canceled(ctx)
		}
		switch s.Code() {
		case codes.Unavailable:
			switch {
			case strings.Contains(text, "tls: ") || strings.Contains(text, "x509: "):
				return c.fail(outcomeConnection, false, failed, "check tls_config: ca_file and server_name, and whether the store has TLS at all")
			case strings.Contains(text, "server preface"), strings.Contains(text, "frame too large"):
				return c.fail(outcomeConnection, false, failed, checkAddress+", and whether it wants TLS (tls_config)")
			}
			return c.fail(outcomeConnection, true, failed, "check that the store is running and its log")
		case codes.Unimplemented:
			return c.fail(outcomeContentType, false, failed, checkAddress)
		case codes.Unauthenticated, codes.PermissionDenied:
			return c.fail(outcomeStatus4xx, false, failed, "check tls_config and headers")
		case codes.ResourceExhausted:
			if strings.Contains(text, "larger than max") {
				return c.fail(outcomeTooLarge, false, failed, "raise "+c.maxFrameSetBy)
			}
			return c.fail(outcomeRateLimited, false, failed, adviceRefused)
		case codes.Aborted, codes.Unknown, codes.Internal, codes.DataLoss, codes.DeadlineExceeded, codes.Canceled:
			return c.fail(outcomeStatus5xx, true, failed, "see the store's log")
		}
		return c.fail(outcomeStatus4xx, false, failed, adviceRefused)
	}()
	c.reach.noteStore(e)
	return e
}

// noteStore notes how a call of a store ended.
func (r *reach) noteStore(e *Error) {
	if e != nil && e.outcome == outcomeCanceled {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e == nil:
		r.read, r.why, r.since = true, nil, time.Time{}
	case e.outcome != outcomeConnection && e.outcome != outcomeTimeout:
		r.why, r.since = e, time.Time{}
	case r.since.IsZero():
		r.why, r.since = e, time.Now()
	default:
		r.why = e
	}
}
