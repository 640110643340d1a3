package serve

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/selection"
)

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

// Reducing returns a handler that answers as h does, with the same limits and metrics, but
// sends of each query what reduce makes of it. Limits on samples count what is sent.
func (h *Handler) Reducing(reduce Reduce) *Handler {
	return &Handler{o: h.o, metrics: h.metrics, reduce: reduce}
}
