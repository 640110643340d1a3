package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/gogo/protobuf/proto"
	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/remoteread/answer"
)

const (
	// maxRequestBytes is the most bytes of a request, compressed and not, as in a
	// Prometheus.
	maxRequestBytes = 32 << 20
	// matcherCost is how many bytes a matcher takes once it is decoded and compiled, or a label to
	// group by: two bytes of a request can make one.
	matcherCost = 250
	// maxTypes is the most bytes of a request that say which forms of an answer it accepts.
	maxTypes = 1000
	// smallRequest is up to how many bytes a decompressed request takes no lease.
	smallRequest = 64 << 10
	// decodedCost is how many bytes a byte of a decompressed request costs: itself, its text
	// in what is decoded, and the structures around that.
	decodedCost = 3
	// mostCompressed is what snappy can compress by: 64 bytes take 3.
	mostCompressed = 64/3 + 1
)

// readBody reads what r sends, compressed.
func readBody(r *http.Request) ([]byte, error) {
	compressed, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequestBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &fault{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the request is larger than the %d bytes that promwarp takes", large.Limit)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &fault{status: http.StatusRequestTimeout, text: err.Error()}
	case memory.Exhausted(err) || r.Context().Err() != nil:
		return nil, failure(r.Context(), err)
	case err != nil:
		return nil, refuse("%w", err)
	}
	return compressed, nil
}

// decodedSize is how many bytes a body decompresses to, if these may be as many.
func decodedSize(compressed []byte) (int, error) {
	n, err := snappy.DecodedLen(compressed)
	switch {
	case err != nil:
		return 0, refuse("%w", err)
	case n > maxRequestBytes:
		return 0, refuse("snappy: decoded length %d exceeds limit %d", n, maxRequestBytes)
	case n > mostCompressed*len(compressed):
		return 0, refuse("%w", snappy.ErrCorrupt) // before as much is allocated
	}
	return n, nil
}

// decodeRequest returns what a body of an allowed size asks for, which is charged to the lease. What
// is wrong is said in Prometheus's words where it has some.
func (h *Handler) decodeRequest(ctx context.Context, compressed []byte, lease *memory.Lease) (*prompb.ReadRequest, error) {
	body, err := snappy.Decode(nil, compressed)
	if err != nil {
		return nil, refuse("%w", err)
	}
	matchers, err := h.checkSize(body)
	if err != nil {
		return nil, err
	}
	if bytes := matcherCost * int64(matchers); bytes > smallRequest {
		if err := lease.Grow(ctx, bytes); err != nil {
			return nil, err
		}
	}
	var req prompb.ReadRequest
	if err := proto.Unmarshal(body, &req); err != nil {
		return nil, refuse("%w", err)
	}
	return &req, nil
}

// The fields of a request that checkSize counts.
const (
	fieldQueries  protowire.Number = 1 // of ReadRequest
	fieldTypes    protowire.Number = 2
	fieldMatchers protowire.Number = 3 // of Query
	fieldHints    protowire.Number = 4
	fieldGrouping protowire.Number = 5 // of ReadHints
)

// checkSize counts what body, an encoded ReadRequest, has of things that take more memory
// than bytes, before memory is taken for them, and returns the number of matchers and labels to
// group by. It stops at what is too much. What is no protobuf is left to proto.Unmarshal.
func (h *Handler) checkSize(body []byte) (matchers int, err error) {
	queries, types := 0, 0
	item := func(of *int) error {
		matchers++
		*of++
		return h.o.Limits.CheckItems(*of, "matchers or labels to group by")
	}
	for f, err := range answer.Fields(body, "a request") {
		if err != nil {
			break
		}
		switch f.Num {
		case fieldTypes:
			// A type that is no list takes two bytes at least.
			if types += max(1, len(f.Bytes)); types > maxTypes {
				return 0, refuse("the request has %d bytes of accepted response types or more; the limit is %d", types, maxTypes)
			}
		case fieldQueries:
			if queries++; queries > h.o.MaxQueries && h.o.MaxQueries > 0 {
				return 0, refuse("the request has %d queries or more; the limit is %d, which --storage.remote.read-max-queries sets", queries, h.o.MaxQueries)
			}
			asked, grouping := 0, 0
			for f, err := range answer.Fields(f.Bytes, "a query") {
				if err != nil {
					break
				}
				switch f.Num {
				case fieldMatchers:
					err = item(&asked)
				case fieldHints:
					for hint, wrong := range answer.Fields(f.Bytes, "hints") {
						if wrong == nil && hint.Num == fieldGrouping && err == nil {
							err = item(&grouping)
						}
					}
				}
				if err != nil {
					return 0, refuse("%w", err)
				}
			}
		}
	}
	return matchers, nil
}

// Patterns appends the regular expressions of matchers to patterns.
func Patterns(patterns []string, matchers []*prompb.LabelMatcher) []string {
	for _, m := range matchers {
		if m.Type == prompb.LabelMatcher_RE || m.Type == prompb.LabelMatcher_NRE {
			patterns = append(patterns, m.Value)
		}
	}
	return patterns
}

// checkRegexps refuses a request whose regular expressions compile to too much.
func (h *Handler) checkRegexps(req *prompb.ReadRequest) error {
	var patterns []string
	for _, q := range req.Queries {
		patterns = Patterns(patterns, q.Matchers)
	}
	if err := h.o.Limits.CheckRegexps(patterns); err != nil {
		return refuse("%w", err)
	}
	return nil
}
