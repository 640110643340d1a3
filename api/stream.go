package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/api/compress"
	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
)

// stream is the http.ResponseWriter of a request for a query. It lets Prometheus's API,
// which writes an answer as one slice of bytes, stream it.
//
// A codec knows the response, not the request. So each request has a stream in
// its context and around its http.ResponseWriter, and when its query was evaluated, the
// value becomes a streamed one, which knows the stream. The codec leaves the rest of the
// answer with the stream and returns the beginning; and when Prometheus's API writes the
// beginning, the stream writes the rest after it. A value without a stream is encoded whole.
type stream struct {
	http.ResponseWriter
	ctx   context.Context // of the request
	limit int             // of series of the answer, 0 for none
	rest  rest            // to be written after what is written next
}

type streamKey struct{}

// rest is what of an answer is encoded as it is written.
type rest interface {
	WriteRest(to io.Writer) (int64, error)
}

// streamed gives the requests of a handler of Prometheus's API a stream. It
// compresses the answers, as that API would, but outside of the stream.
func (a *API) streamed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		vary := slices.Clone(w.Header()["Vary"])
		a.compressed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := &stream{ResponseWriter: w, ctx: r.Context()}
			s.limit, _ = strconv.Atoi(r.FormValue("limit")) // Prometheus's API refuses a wrong one
			r = r.Clone(context.WithValue(r.Context(), streamKey{}, s))
			// Prometheus's API is left nothing to compress, but says itself
			// what its answers vary by.
			r.Header.Del("Accept-Encoding")
			w.Header()["Vary"] = vary
			h.ServeHTTP(s, r)
		})).ServeHTTP(w, r)
	})
}

// compressed has h answer, compressed as the client prefers.
func (a *API) compressed(h http.Handler) http.Handler { return compress.Handler(h, a.o.Memory) }

// streamOf is the stream of the request whose context is ctx, or nil.
func streamOf(ctx context.Context) *stream {
	s, _ := ctx.Value(streamKey{}).(*stream)
	return s
}

// askLater tells the client whose request has ctx to come back later.
func askLater(ctx context.Context) {
	if s := streamOf(ctx); s != nil {
		s.Header().Set("Retry-After", respond.RetryAfter(nil))
	}
}

// streamedValue is the answer to the request that has the stream.
type streamedValue struct {
	parser.Value
	stream *stream
}

// resultOf is the value that a response has for a query, and the stream that may write
// it, or nil.
func resultOf(resp *v1.Response) (parser.Value, *stream) {
	d, ok := resp.Data.(*v1.QueryData)
	if !ok || d == nil {
		return nil, nil
	}
	if v, ok := d.Result.(streamedValue); ok {
		return v.Value, v.stream
	}
	return d.Result, nil
}

// claim makes a result the answer to the stream's request.
func (s *stream) claim(r *promql.Result) {
	cut(r, s.limit)
	r.Value = streamedValue{r.Value, s}
}

// cut cuts a result to so many series, 0 for no limit, as Prometheus's API does with values that
// it knows.
func cut(r *promql.Result, limit int) {
	truncated := false
	switch v := r.Value.(type) {
	case promql.Matrix:
		r.Value, truncated = truncate(v, limit)
	case promql.Vector:
		r.Value, truncated = truncate(v, limit)
	case *plan.Matrix:
		v.Rows, truncated = truncate(v.Rows, limit)
	}
	if truncated {
		r.Warnings.Add(errors.New("results truncated due to limit"))
	}
}

// truncate returns the first rows, at most limit of them if that is not 0, and whether there
// are more.
func truncate[S ~[]E, E any](rows S, limit int) (S, bool) {
	if limit > 0 && len(rows) > limit {
		return rows[:limit], true
	}
	return rows, false
}

// Write implements http.ResponseWriter. Its count is of p alone.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.ResponseWriter.Write(p)
	if rest := s.rest; err == nil && rest != nil {
		s.rest = nil
		_, span := tracing.Start(s.ctx, "stream")
		_, err = rest.WriteRest(s.ResponseWriter)
		tracing.End(span, err)
	}
	return n, err
}
