package remoteread

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/remoteread/external"
)

// unconfirmedError is for an answer of which it cannot be found out with which external
// labels it was made.
type unconfirmedError struct{ err error }

func (e *unconfirmedError) Error() string { return cannotRead + e.err.Error() }
func (e *unconfirmedError) Unwrap() error { return e.err }

const (
	cannotRead     = "the external labels that the store adds to its series cannot be read: "
	adviceExternal = "check that its HTTP API can be reached, or set --" + FlagExternalLabels
)

// confirmed is what the external labels turn out to be.
type confirmed struct {
	labels labels.Labels
	err    error
}

// confirm begins to find out what the external labels are now. It is to be called when the
// store has begun to answer; with a witness when the answer has come.
func (c *Client) confirm(ctx context.Context) <-chan confirmed {
	out := make(chan confirmed, 1)
	go func() {
		var got confirmed
		got.err = rescue.Do(func() (err error) {
			got.labels, err = c.external.Confirm(ctx)
			return err
		})
		out <- got
	}()
	return out
}

// check waits for what confirm began and fails if the labels are others by now.
func check(ctx context.Context, v *external.View, of <-chan confirmed) error {
	select {
	case got := <-of:
		switch {
		case got.err != nil:
			return &unconfirmedError{got.err}
		case !v.Added(got.labels):
			return external.ErrRelabelled
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
