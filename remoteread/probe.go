package remoteread

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/prompb"
)

// Probe asks the store for samples of a series that it is not likely to have, once, to see
// whether it has remote read; see NoRemoteRead.
func (c *Client) Probe(ctx context.Context) error {
	now := time.Now().UnixMilli()
	ms := []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: model.MetricNameLabel, Value: "promwarp_probe"}}
	q := question{piece: piece{span: span{now - time.Minute.Milliseconds(), now}, ms: ms}}
	_, err := c.attempt(ctx, q, &share{of: c.tally(ctx)})
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
