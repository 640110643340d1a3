package remoteread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/selection"
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

// fetchViewed fetches what matchers select, as the external labels of the store are to be
// seen.
func (c *Client) fetchViewed(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher, f selection.Fetch) (*selection.Selection, error) {
	if len(matchers) == 0 {
		return selection.Empty(), nil // as a Prometheus answers; with matchers of ours it would send all
	}
	unlike := 0
	for n := range maxRelabelled {
		v, ext, err := c.view(ctx, matchers)
		if err != nil {
			return nil, err
		}
		sel, err := c.fetchView(ctx, mint, maxt, v, f)
		var unasked *answer.UnaskedError
		foreign := errors.As(err, &unasked) && unasked.External
		if !foreign && !errors.Is(err, answer.ErrRelabelled) {
			return sel, err
		}
		now, confirmErr := c.external.Confirm(ctx)
		if confirmErr != nil {
			return nil, c.content(&unconfirmedError{confirmErr})
		}
		if foreign && labels.Equal(now, ext) {
			return nil, err
		}
		if labels.Equal(now, ext) {
			unlike++
		}
		if unlike > maxUnlike {
			break
		}
		select {
		case <-time.After(time.Duration(n*n) * time.Millisecond):
		case <-ctx.Done():
			return nil, c.canceled(ctx)
		}
	}
	return nil, c.fail(outcomeRelabelled, false, answer.ErrRelabelled,
		"check that the store's /api/v1/status/config is that of the server that answers remote read, or set --"+FlagExternalLabels)
}

// view is how what matchers select is to be seen under the external labels as they are known, which
// it returns, too.
func (c *Client) view(ctx context.Context, matchers []*labels.Matcher) (*answer.View, labels.Labels, error) {
	ext, err := c.external.Labels(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ext, c.canceled(ctx)
		}
		return nil, ext, c.content(&unconfirmedError{err})
	}
	v, err := answer.NewView(ext, c.keepExternal, matchers)
	if err != nil {
		return nil, ext, fmt.Errorf("remote read from %s: %w", c.upstream, err)
	}
	if c.external.MayChange() && answer.HasWitness(ext) {
		v.Witness = c.witness.Load()
	}
	return v, ext, nil
}

// fetchView fetches the series of a view, apart where some have an external label of
// their own.
func (c *Client) fetchView(ctx context.Context, mint, maxt int64, v *answer.View, f selection.Fetch) (*selection.Selection, error) {
	name, known := c.clashes.get(v.Matchers)
	if !known || !slices.Contains(v.Open, name) {
		sel, err := c.fetchSpans(ctx, piece{span: span{mint, maxt}, ms: v.Matchers, matchers: v.Asked, view: v, fetch: f})
		var clash *answer.ClashError
		if !errors.As(err, &clash) {
			return sel, err
		}
		name = clash.Label
		c.clashes.add(v.Matchers, name)
	}
	lack, have := v.Split(name)
	a, err := c.fetchView(ctx, mint, maxt, lack, f)
	if err != nil {
		return nil, err
	}
	b, err := c.fetchView(ctx, mint, maxt, have, f)
	if err != nil {
		return nil, err
	}
	sel, err := c.join(ctx, a, b)
	if err != nil {
		return nil, err
	}
	if sel.NumSeries() < a.NumSeries()+b.NumSeries() {
		return nil, c.fail(outcomeMalformed, false,
			fmt.Errorf("series that differ only in having the external label %q of their own become one when it is kept", name),
			"have external labels taken off: --"+FlagExternalLabels+"=auto")
	}
	return sel, nil
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

// confirm begins to find out what the external labels are now, and fails if they are others than those of
// v. It is to be called when the store has begun to answer; with a witness when the answer has come.
func (c *Client) confirm(ctx context.Context, v *answer.View) <-chan error {
	out := make(chan error, 1)
	go func() {
		var now labels.Labels
		err := parallel.Rescue(func() (err error) {
			now, err = c.external.Confirm(ctx)
			return err
		})
		switch {
		case err != nil:
			err = &unconfirmedError{err}
		case !v.Added(now):
			err = answer.ErrRelabelled
		}
		out <- err
	}()
	return out
}
