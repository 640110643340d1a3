package remoteread

import (
	"context"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage/remote"

	"github.com/promwarp/promwarp/remoteread/answer"
)

// External tells which labels the store adds to the series that it sends.
type External interface {
	// Labels returns the labels as they were known last, and finds them out if they
	// were not yet.
	Labels(ctx context.Context) (labels.Labels, error)
	// Confirm returns what the labels are at some time after the call.
	Confirm(ctx context.Context) (labels.Labels, error)
	// MayChange reports whether Confirm may return others than Labels.
	MayChange() bool
}

const (
	// maxRelabelled is how often a fetch starts anew because the store's external labels
	// have changed.
	maxRelabelled = 10
	// maxUnlike is how often it does though they are said to be the same.
	maxUnlike = 2
)

// pieceFor is what is asked of the store for what matchers select: under the external labels as they
// are known, which it returns, too, if there may be some.
func (c *Client) pieceFor(ctx context.Context, matchers []*labels.Matcher) (q piece, ext labels.Labels, err error) {
	if c.external == nil {
		q.matchers = matchers
		q.ms, err = remote.ToLabelMatchers(matchers)
	} else if ext, err = c.external.Labels(ctx); err == nil {
		q.view, err = answer.NewView(ext, c.Kept(ext), matchers)
	} else if ctx.Err() != nil {
		return q, ext, c.canceled(ctx)
	} else {
		return q, ext, c.content(&unconfirmedError{err})
	}
	if err != nil {
		return q, ext, fmt.Errorf("remote read from %s: %w", c.upstream, err)
	}
	if q.view != nil {
		q.ms, q.matchers = q.view.Matchers, q.view.Asked
		if c.external.MayChange() && answer.HasWitness(ext) {
			q.view.Witness = c.witness.Load()
		}
	}
	return q, ext, nil
}

// Kept are those of the store's external labels that series keep.
func (c *Client) Kept(ext labels.Labels) labels.Labels {
	if !c.keepExternal {
		return labels.EmptyLabels()
	}
	return labels.NewBuilder(ext).Del(c.replicaLabels...).Labels()
}

// unconfirmedError is for an answer of which it cannot be found out with which external
// labels it was made.
type unconfirmedError struct{ err error }

func (e *unconfirmedError) Error() string { return cannotRead + e.err.Error() }
func (e *unconfirmedError) Unwrap() error { return e.err }

const (
	cannotRead     = "the external labels that the store adds to its series cannot be read: "
	adviceExternal = "check that its HTTP API can be reached, or set --" + FlagExternalLabels
)
