package remoteread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gogo/protobuf/proto"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/util/annotations"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/remoteread/stores"
)

// Store fetches from a store of Thanos as a Client does from a server with remote read: in pieces, with its
// retries, limits and metrics. It lists labels, too.
type Store struct {
	*Client
	relabelled atomic.Pointer[func()] // see OnRelabelled
}

// lowerPiece is the length of pieces where blocks of a lower resolution may be read, whose chunks are of 12
// hours and 6 days: the length of the largest blocks.
const lowerPiece = 14 * 24 * time.Hour

// infoTimeout is how long a store may take to say what it is.
const infoTimeout = 5 * time.Second

// NewStore returns a client of a store. Of o, what is about external labels has no use: stores match series
// by theirs.
func NewStore(cfg stores.Config, o Options) (*Store, error) {
	if cfg.MaxResolution > 0 {
		o.Piece = cmp.Or(o.Piece, lowerPiece)
	}
	o = o.withDefaults()
	of, err := stores.New(cfg, o.MaxFrameBytes)
	if err != nil {
		return nil, err
	}
	c := commonClient(cfg.String(), cfg.Timeout, o)
	c.store, c.upstream = of, cfg.Address
	c.secrets = secretsOf(&config.RemoteReadConfig{URL: &commonconfig.URL{URL: &url.URL{}}, Headers: cfg.Headers})
	c.chunksAlone.Store(true)
	return &Store{Client: c}, nil
}

// Close closes the connection.
func (s *Store) Close() { _ = s.store.Close() }

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
	s.reach.set(nil, false)
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

// The years 1 and 10000, ms. Stores make texts of the times of lists.
const (
	earliest = -62135596800000
	latest   = 253402300800000
)

// LabelNames returns the names of the labels of series that matchers match in [mint, maxt].
func (s *Store) LabelNames(ctx context.Context, mint, maxt int64, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	r, told := &leafpb.LabelNamesRequest{Start: max(mint, earliest), End: min(maxt, latest), Limit: limitOf(hints)}, &leafpb.LabelNamesResponse{}
	r.PartialResponseDisabled, r.PartialResponseStrategy = s.store.Strategy(false)
	err := s.list(ctx, "/thanos.Store/LabelNames", matchers, &r.Matchers, r, told)
	return slices.Compact(slices.Sorted(slices.Values(told.Names))), warned(told.Warnings), err
}

// LabelValues returns the values of label name of series that matchers match in [mint, maxt].
func (s *Store) LabelValues(ctx context.Context, mint, maxt int64, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	r, told := &leafpb.LabelValuesRequest{Label: name, Start: max(mint, earliest), End: min(maxt, latest), Limit: limitOf(hints)}, &leafpb.LabelValuesResponse{}
	r.PartialResponseDisabled, r.PartialResponseStrategy = s.store.Strategy(false)
	err := s.list(ctx, "/thanos.Store/LabelValues", matchers, &r.Matchers, r, told)
	return slices.Compact(slices.Sorted(slices.Values(told.Values))), warned(told.Warnings), err
}

// list asks for a list. Matchers are put into the request.
func (s *Store) list(ctx context.Context, method string, matchers []*labels.Matcher, into *[]prompb.LabelMatcher, request, told proto.Message) error {
	ms, err := remote.ToLabelMatchers(matchers)
	if err != nil {
		return fmt.Errorf("the store %s: %w", s.upstream, err)
	}
	for _, m := range ms {
		*into = append(*into, *m)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errStalled)
	defer cancel()
	if err := s.store.Call(ctx, method, request, told); err != nil {
		return s.called(ctx, err)
	}
	return nil
}

func limitOf(hints *storage.LabelHints) int64 {
	if hints == nil {
		return 0
	}
	return int64(hints.Limit)
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
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Merge(warned(texts))
}

// askStore asks a store what r is for, and reads its answer to the end.
func (c *Client) askStore(ctx context.Context, r *ride, in *progress) error {
	q := c.store.Request(r.q.mint, r.q.maxt, r.q.ms, r.q.fetch.Whole)
	part := &answer.Part{Ctx: ctx, Asked: r.q.matchers, Expected: r.q.fetch.Expected, Count: r.set}
	if q.MaxResolutionWindow > 0 {
		part.Aggregates = q.Aggregates
	}
	if c.store.MaxResolution > 0 {
		part.Asked = slices.DeleteFunc(slices.Clone(part.Asked), func(m *labels.Matcher) bool { return m.Name == stores.AggregateLabel })
	}
	read := c.answers.NewStore(part)
	var unusable error
	err := c.store.Series(ctx, q, func(message []byte) error {
		in.came(len(message))
		if unusable = read.Message(message); unusable == nil {
			unusable = in.excess()
		}
		in.wait()
		return unusable
	})
	if err == nil {
		unusable = read.Finish()
		err = unusable
	}
	switch {
	case err == nil:
		c.reach.set(nil, false)
		r.q.warnings.add(read.Warnings)
		r.sel = part.Sel
		return nil
	case ctx.Err() != nil:
	case memory.Exhausted(err):
		return err // the store is not to blame
	case unusable != nil:
		return c.content(unusable)
	}
	e := c.called(ctx, err)
	if e.outcome == outcomeConnection && in.bytes > 0 {
		return c.fail(outcomeCutOff, true, c.clean("the answer was cut off", err), adviceCutOff)
	}
	return e
}

// NoStore reports whether err, of a call, says that what answers at the address is no store of Thanos.
func NoStore(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.grpc && e.outcome == outcomeContentType
}

const (
	checkAddress       = "check that the address is that of the gRPC server (--grpc-address) of a sidecar, store gateway, receiver, ruler or Querier"
	acceptsCertificate = "accepts the certificate of tls_config (cert_file, key_file)"
	adviceRefused      = "see the store's log and its limits, or narrow the selector or the time range"
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
			case strings.Contains(text, "remote error: tls: "):
				return c.fail(outcomeConnection, false, failed, "check that the store "+acceptsCertificate)
			case strings.Contains(text, "tls: ") || strings.Contains(text, "x509: "):
				return c.fail(outcomeConnection, false, failed, "check tls_config: ca_file and server_name, and whether the store has TLS at all")
			case strings.Contains(text, "server preface"), strings.Contains(text, "frame too large"):
				return c.fail(outcomeConnection, false, failed, checkAddress+", and whether it wants TLS (tls_config)")
			}
			advice := "check that the store is running and its log"
			if c.store.TLS != nil { // a refusal may come too late to be read
				advice += ", and that it " + acceptsCertificate
			}
			return c.fail(outcomeConnection, true, failed, advice)
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
	if e.outcome != outcomeCanceled {
		c.reach.set(e, e.outcome == outcomeConnection || e.outcome == outcomeTimeout)
	}
	return e
}
