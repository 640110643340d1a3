package api

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/api/respond"
)

// streams lets Prometheus's API, which writes an answer as one slice of bytes,
// stream it.
//
// A codec knows the response, not the request. So each request has a stream in
// its context and around its http.ResponseWriter. When its query was evaluated,
// the stream claims the value; the codec takes the stream that claimed the value
// it is to encode, leaves the rest of the answer with it and returns the
// beginning; and when Prometheus's API writes the beginning, the stream writes
// the rest after it. A codec that finds no stream encodes all of the answer.
type streams struct {
	mu     sync.Mutex
	claims map[any][]*stream // by the value's first row
}

func newStreams() *streams { return &streams{claims: map[any][]*stream{}} }

type streamKey struct{}

// handler gives the requests of a handler of Prometheus's API a stream. It
// compresses the answers, as that API would, but outside of the stream.
func (ss *streams) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		vary := slices.Clone(w.Header()["Vary"])
		httputil.CompressionHandler{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := &stream{ResponseWriter: w, streams: ss}
			defer s.drop()
			r = r.Clone(context.WithValue(r.Context(), streamKey{}, s))
			// Prometheus's API is left nothing to compress, but says itself
			// what its answers vary by.
			r.Header.Del("Accept-Encoding")
			w.Header()["Vary"] = vary
			h.ServeHTTP(s, r)
		})}.ServeHTTP(w, r)
	})
}

// askLater tells the client whose request has ctx to come back later.
func askLater(ctx context.Context) {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok {
		s.Header().Set("Retry-After", respond.RetryAfter(nil))
	}
}

// claim notes that a value is the answer to the request of ctx.
func claim(ctx context.Context, v parser.Value) {
	s, ok := ctx.Value(streamKey{}).(*stream)
	row := firstRow(v)
	if !ok || row == nil {
		return
	}
	s.drop()
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	s.row = row
	s.streams.claims[row] = append(s.streams.claims[row], s)
}

// take returns the stream that claimed the value with this first row, or nil if
// there is none, or more than one since requests share the value.
func (ss *streams) take(row any) *stream {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if c := ss.claims[row]; len(c) == 1 {
		return c[0]
	}
	return nil
}

// stream is a request's http.ResponseWriter.
type stream struct {
	http.ResponseWriter
	streams *streams
	row     any  // of the value it claims
	rest    rest // to be written after what is written next
}

// rest is what of an answer is encoded as it is written.
type rest interface {
	WriteRest(to io.Writer) (int64, error)
}

// drop gives up the stream's claim.
func (s *stream) drop() {
	if s.row == nil {
		return
	}
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	c := s.streams.claims[s.row]
	if c = slices.DeleteFunc(c, func(o *stream) bool { return o == s }); len(c) == 0 {
		delete(s.streams.claims, s.row)
	} else {
		s.streams.claims[s.row] = c
	}
	s.row = nil
}

// Write implements http.ResponseWriter. Its count is of p alone.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.ResponseWriter.Write(p)
	if rest := s.rest; err == nil && rest != nil {
		s.rest = nil
		_, err = rest.WriteRest(s.ResponseWriter)
	}
	return n, err
}
