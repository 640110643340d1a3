// Package leaf is promwarp as a leaf of Thanos. Over gRPC a Querier asks what is here (Info), has queries
// evaluated (Query), and reads what it evaluates itself (Store). All of it is answered by the doors for
// HTTP, inside the process, so that their bounds, queues, memory, metrics and logs hold here, too.
//
// Start with New. info.go says what is here, query.go evaluates, store.go reads. The wire format is in
// leafpb/; message.go encodes results.
package leaf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/remoteread/serve"
)

// Options are what a leaf is made from. All are required.
type Options struct {
	// Doors answers requests for labels and remote reads, by Prometheus's paths below Prefix.
	Doors  http.Handler
	Prefix string
	// Evaluate answers a query as the door of its name does, and has send send the result. What it writes
	// is an error.
	Evaluate func(w http.ResponseWriter, r *http.Request, door string, p promapi.Evaluation, send func(q promql.Query, result *promql.Result) error)
	// Sources are the stores that samples come from.
	Sources func() []Source
	// Users counts who uses all that. A call goes on for a moment after its client has gone, and so after
	// its HTTP request.
	Users Users
	// NotePanic counts and logs the panic that an error comes from, if it does.
	NotePanic func(error)
	// Memory is what lists take leases of; nil is without limit.
	Memory *memory.Pool
	// Limits bound the regular expressions of a call.
	Limits planner.Limits
}

// Users is the part of a *refcount.Count that calls need.
type Users interface {
	Hold() bool
	Release()
}

// Leaf answers a Querier. It is safe for concurrent use.
type Leaf struct{ o Options }

const (
	// mostRequestBytes is the most bytes of a message of a client, fewer than of a body of a request.
	mostRequestBytes = 8 << 20
	// mostValues is the most values of a message: an empty matcher is 2 bytes there, and 72 in memory.
	mostValues = 1 << 14
)

// New returns what answers requests over gRPC, which are HTTP/2. It is to be stopped once no more come.
func New(o Options) *grpc.Server {
	l := &Leaf{o: o}
	s := grpc.NewServer(grpc.ForceServerCodecV2(wire{}), grpc.MaxRecvMsgSize(mostRequestBytes),
		grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
			err = l.call(func() (err error) {
				answer, err = handle(ctx, r)
				return err
			})
			return answer, err
		}),
		grpc.StreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return l.call(func() error { return handle(server, stream) })
		}))
	leafpb.RegisterInfoServer(s, l)
	leafpb.RegisterQueryServer(s, l)
	leafpb.RegisterStoreServer(s, l)
	return s
}

// call answers a call by f, whose panic is an error: it would end the program.
func (l *Leaf) call(f func() error) error {
	if !l.o.Users.Hold() {
		return status.Error(codes.Unavailable, "promwarp is shutting down")
	}
	defer l.o.Users.Release()
	err := parallel.Rescue(f)
	if panicked, ok := errors.AsType[*parallel.Panic](err); ok {
		l.o.NotePanic(err)
		return status.Error(codes.Internal, fmt.Sprintf("promwarp panicked: %v; its log has the stack", panicked.Value))
	}
	return err
}

// codec is leafpb.Codec, but counts values before it takes memory for them.
type codec struct{ leafpb.Codec }

// Unmarshal implements encoding.Codec.
func (c codec) Unmarshal(data []byte, v any) error {
	var lists protowire.Number // the field whose messages have values of their own
	switch v.(type) {
	case *leafpb.QueryRequest:
		lists = 6
	case *leafpb.QueryRangeRequest:
		lists = 8
	}
	if n, err := countValues(data, lists); err != nil {
		return err
	} else if n > mostValues {
		return fmt.Errorf("the message has more than %d values", mostValues)
	}
	return c.Codec.Unmarshal(data, v)
}

// countValues counts the values of a message, and of those in its field lists.
func countValues(data []byte, lists protowire.Number) (n int, err error) {
	for len(data) > 0 {
		field, kind, size := protowire.ConsumeField(data)
		if size < 0 {
			return n, protowire.ParseError(size)
		}
		if field == lists && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data[protowire.SizeTag(field):])
			inner, _ := countValues(value, 0) // decoding says what is wrong
			n += inner
		}
		n, data = n+1, data[size:]
	}
	return n, nil
}

// request is the request over HTTP that answers a call: of the same client, with the headers that came.
func request(ctx context.Context, path string, form url.Values, body []byte) *http.Request {
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: path}, RequestURI: path, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Host: "promwarp",
	}
	if caller, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr = caller.Addr.String()
	}
	sent, _ := metadata.FromIncomingContext(ctx)
	for name, values := range sent {
		if !strings.HasPrefix(name, ":") && !strings.HasPrefix(name, "grpc-") {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	for _, name := range []string{"Accept-Encoding", "Content-Type", "Content-Length", "Te"} {
		r.Header.Del(name)
	}
	if form != nil {
		body = []byte(form.Encode())
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if len(body) > 0 {
		r.Body, r.ContentLength = readCloser{bytes.NewReader(body)}, int64(len(body))
	}
	return r.WithContext(ctx)
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// answer is the http.ResponseWriter that takes what a door answers.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
	// stream takes what is written where the status is 200; nil has it be the body.
	stream func([]byte) error
	lease  *memory.Lease // of the body, and of what is made of it
	ctx    context.Context
	failed error // why there is no more of the body
}

// bodyCost is how many bytes a byte of a body costs: itself, as an answer's text, and as labels.
const bodyCost = 3

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.code == http.StatusOK && a.stream != nil {
		if err := a.stream(b); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	if a.failed == nil && a.lease != nil {
		a.failed = a.lease.Grow(a.ctx, bodyCost*int64(len(b)))
	}
	if a.failed != nil {
		return 0, a.failed
	}
	return a.body.Write(b)
}

// Flush implements http.Flusher: what is written is sent at once.
func (a *answer) Flush() {}

// err is the error that the answer says, nil if it says none.
func (a *answer) err() error {
	if a.failed != nil {
		return status.Error(codes.Unavailable, a.failed.Error())
	}
	if a.code == http.StatusOK || a.code == 0 && a.body.Len() == 0 {
		return nil
	}
	var said struct{ Error string }
	if json.Unmarshal(a.body.Bytes(), &said) != nil || said.Error == "" {
		said.Error = strings.TrimSpace(a.body.String())
	}
	code := codes.Aborted // as Thanos's own leaves do
	switch a.code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		code = codes.InvalidArgument
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		code = codes.Unimplemented
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusTooManyRequests:
		code = codes.Unavailable
	}
	return status.Error(code, said.Error)
}

// answered has serve answer a call. What ended it otherwise than by an answer is an error, too.
func answered(ctx context.Context, a *answer, serve func()) error {
	if promapi.Answered(serve) {
		return status.Error(codes.Aborted, "the answer broke off")
	}
	if err := a.err(); err != nil || ctx.Err() == nil {
		return err
	}
	return status.FromContextError(ctx.Err()).Err()
}

// selector is a selector in PromQL's text of what matchers match. Their regular expressions are compiled
// if they are within the limits.
func (l *Leaf) selector(wire []prompb.LabelMatcher) (string, error) {
	pointers := make([]*prompb.LabelMatcher, len(wire))
	for i := range wire {
		pointers[i] = &wire[i]
	}
	err := l.o.Limits.CheckRegexps(serve.Patterns(nil, pointers))
	var matchers []*labels.Matcher
	if err == nil {
		matchers, err = remote.FromLabelMatchers(pointers)
	}
	if err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	return (&parser.VectorSelector{LabelMatchers: matchers}).String(), nil
}

// Moments before and after these, in ms, are all there is: Thanos has the least and greatest integers.
const (
	earliest = -62135596800000 + 24*3600*1000*365
	latest   = 253402300799000
)

// seconds is a moment in ms as forms have it.
func seconds(ms int64) string {
	return strconv.FormatFloat(float64(min(max(ms, earliest), latest))/1000, 'f', 3, 64)
}

// replicas checks that none of the labels is on series, as those of replicas that are to be left out.
func (l *Leaf) replicas(names []string) error {
	for _, s := range l.o.Sources() {
		for _, name := range names {
			if s.Labels.Has(name) {
				return status.Error(codes.InvalidArgument, fmt.Sprintf("the replica label %s is on all series here: name it in promwarp's upstream.replica_labels, so that series are without it", name))
			}
		}
	}
	return nil
}

// Source is a store that samples come from.
type Source struct {
	// Labels are the external labels of its series, those of replicas left out.
	Labels labels.Labels
	// Shown says that queries see these on its series.
	Shown bool
	// Retention is how far back it has all samples; 0 is without end.
	Retention time.Duration
}

// oldest is since when a source has all samples, in ms: 0 where that is without end.
func (s Source) oldest(now time.Time) int64 {
	if s.Retention == 0 {
		return 0
	}
	return now.Add(-s.Retention).UnixMilli()
}

// newest is until when a source has all samples: as long as there are some.
const newest = math.MaxInt64
