package remoteread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/util/annotations"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// Fetch returns what matchers select from mint to maxt (ms since the epoch,
// both included). Chunks are whole, so samples outside the range may come
// along. On an error there is no selection; it is an *Error wherever the store
// is involved. The protocol carries no warnings, so annotations are empty.
func (c *Client) Fetch(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher, f selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	if mint > maxt || !c.Answers(matchers) {
		return selection.Empty(), nil, nil
	}
	ms, err := remote.ToLabelMatchers(matchers)
	if err != nil {
		return nil, nil, fmt.Errorf("remote read from %s: %w", c.upstream, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, c.canceled(ctx)
	}
	var sel *selection.Selection
	if c.external != nil {
		sel, err = c.fetchViewed(ctx, mint, maxt, matchers, f)
	} else {
		sel, err = c.fetchSpans(ctx, piece{span: span{mint, maxt}, ms: ms, matchers: matchers, fetch: f})
	}
	return sel, nil, err
}

// fetchSpans fetches a piece of any length, in pieces that are short enough. A nil view
// leaves series as they come.
func (c *Client) fetchSpans(ctx context.Context, p piece) (*selection.Selection, error) {
	spans := split(p.mint, p.maxt, c.pieceOf(p.span))
	if len(spans) == 1 {
		return c.fetchParts(ctx, p)
	}

	all := c.tally(ctx, p.fetch.Progress)
	parts := make([]*selection.Selection, len(spans))
	// The group's limit keeps the number of goroutines small; the number of
	// requests is limited for the client as a whole.
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(c.concurrency)
	for _, i := range longestFirst(spans) {
		if gctx.Err() != nil {
			break
		}
		p.span = spans[i]
		p := p
		g.Go(func() error {
			return parallel.Rescue(func() (err error) {
				if parts[i], err = c.fetchPiece(gctx, question{piece: p}, all); err == nil && p.fetch.Came != nil {
					p.fetch.Came(selection.Part{Sel: parts[i], MinT: p.mint, MaxT: p.maxt})
				}
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, c.canceled(ctx)
	}
	return c.join(ctx, parts...)
}

// join joins what the parts of a fetch brought.
func (c *Client) join(ctx context.Context, parts ...*selection.Selection) (*selection.Selection, error) {
	sel, err := selection.Join(ctx, parts...)
	if err == nil {
		return sel, nil
	}
	if ctx.Err() != nil {
		return nil, c.canceled(ctx)
	}
	return nil, c.malformed(err)
}

// Answers reports whether the selector contains the required matchers. As in
// Prometheus, one that does not selects nothing here.
func (c *Client) Answers(matchers []*labels.Matcher) bool {
	for name, value := range c.required {
		if !contains(matchers, name, value) {
			return false
		}
	}
	return true
}

func contains(matchers []*labels.Matcher, name model.LabelName, value model.LabelValue) bool {
	for _, m := range matchers {
		if m.Type == labels.MatchEqual && m.Name == string(name) && m.Value == string(value) {
			return true
		}
	}
	return false
}

// span is a time range in ms since the epoch, both ends included.
type span struct{ mint, maxt int64 }

// length is the span's length in ms, less one.
func (s span) length() uint64 { return uint64(s.maxt) - uint64(s.mint) }

const (
	// leastPieces is how many pieces, for each request that may be in flight, a range must be
	// longer than for its pieces to be longer than Options.Piece.
	leastPieces = 2
	// growPiece is how many times as long pieces become at once, and growths how often. So they are
	// of 6, 18 or 54 h. A Prometheus compacts its blocks to the same lengths, and reads all that a
	// block's index says of a series for each request that the block has a part of.
	growPiece, growths = 3, 2
)

// pieceOf returns how long the pieces of s are, in ms.
func (c *Client) pieceOf(s span) int64 {
	length := c.piece
	for range growths {
		if s.length() < uint64(length)*growPiece*leastPieces*uint64(c.concurrency) {
			break
		}
		length *= growPiece
	}
	return length
}

// longestFirst returns the numbers of spans in the order in which they are asked for: what takes
// longest does not come last, when no other requests are left beside it.
func longestFirst(spans []span) []int {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(spans[b].length(), spans[a].length())
	})
	return order
}

// maxPieces is about how many pieces a range is split into at most. Ranges such
// as "everything" come as far-off ends, and would make pieces without end.
const maxPieces = 256

// split cuts mint to maxt at the multiples of length (ms).
func split(mint, maxt, length int64) []span {
	// Differences as unsigned numbers do not overflow.
	n := uint64(floorDiv(maxt, length)) - uint64(floorDiv(mint, length))
	if n >= maxPieces {
		if k := n/maxPieces + 1; k > uint64(math.MaxInt64/length) {
			length = math.MaxInt64
		} else {
			length *= int64(k)
		}
	}
	spans := make([]span, 0, min(n, maxPieces)+1)
	for {
		left := uint64(length - 1 - (mint - floorDiv(mint, length)*length))
		if uint64(maxt)-uint64(mint) <= left {
			return append(spans, span{mint, maxt})
		}
		end := mint + int64(left)
		spans = append(spans, span{mint, end})
		mint = end + 1
	}
}

// floorDiv is the largest integer not above a/b, for a positive b.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Probe asks the store for samples of a series that it is not likely to have, once, to see
// whether it has remote read; see NoRemoteRead.
func (c *Client) Probe(ctx context.Context) error {
	now := time.Now().UnixMilli()
	ms := []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: model.MetricNameLabel, Value: "promwarp_probe"}}
	q := question{piece: piece{span: span{now - time.Minute.Milliseconds(), now}, ms: ms}}
	_, err := c.attempt(ctx, q, &share{of: c.tally(ctx, nil)})
	return err
}

// NoRemoteRead reports whether err, of a fetch or a probe, says that what answers at the
// URL is not remote read.
func NoRemoteRead(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.StatusCode {
	case http.StatusOK:
		return e.outcome == outcomeContentType
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented:
		return true
	}
	return false
}
