package api

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

// maxPoints is Prometheus's limit on the points of one series in an answer.
const maxPoints = 11000

// evaluation is what a request wants evaluated. An instant query has start
// equal to end and no step.
type evaluation struct {
	query      string
	start, end time.Time
	step       time.Duration
	timeout    time.Duration
	lookback   time.Duration
}

// parseEvaluation reads the parameters of a query as Prometheus does, with its
// words for what is wrong.
func parseEvaluation(r *http.Request, now time.Time) (evaluation, error) {
	e := evaluation{query: r.FormValue("query"), start: now, end: now}
	var err error
	if isRange(r.Form) {
		if e.start, err = parseTime(r.FormValue("start")); err != nil {
			return e, invalid("start", err)
		}
		if e.end, err = parseTime(r.FormValue("end")); err != nil {
			return e, invalid("end", err)
		}
		if e.end.Before(e.start) {
			return e, invalid("end", errors.New("end timestamp must not be before start time"))
		}
		if e.step, err = parseDuration(r.FormValue("step")); err != nil {
			return e, invalid("step", err)
		}
		if e.step <= 0 {
			return e, invalid("step", errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"))
		}
		if e.end.Sub(e.start)/e.step > maxPoints {
			return e, errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
		}
	} else if s := r.FormValue("time"); s != "" {
		if e.start, err = parseTime(s); err != nil {
			return e, invalid("time", err)
		}
		e.end = e.start
	}
	if s := r.FormValue("timeout"); s != "" {
		if e.timeout, err = parseDuration(s); err != nil {
			return e, invalid("timeout", err)
		}
	}
	if s := r.FormValue("lookback_delta"); s != "" {
		if e.lookback, err = parseDuration(s); err != nil {
			return e, fmt.Errorf("error parsing lookback delta duration: %w", err)
		}
	}
	return e, nil
}

func invalid(parameter string, err error) error {
	return fmt.Errorf("invalid parameter %q: %w", parameter, err)
}

// parseTime reads seconds since the epoch, to the millisecond, or RFC 3339.
func parseTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if ms := math.Round(f * 1000); math.Abs(ms) < math.MaxInt64/2 {
			return time.UnixMilli(int64(ms)).UTC(), nil
		}
	} else if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// parseDuration reads seconds or a Prometheus duration such as 5m.
func parseDuration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if ns := f * float64(time.Second); math.Abs(ns) < math.MaxInt64 {
			return time.Duration(ns), nil
		}
		return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
	}
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
	}
	return time.Duration(d), nil
}
