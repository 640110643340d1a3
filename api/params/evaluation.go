// Package params reads the parameters of requests as Prometheus does, and says in its words what
// is wrong with them. Parse reads those of a query; ReadForm reads the form that they are in.
package params

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

// maxPoints is Prometheus's limit on the points of one series in an answer.
const maxPoints = 11000

// Evaluation is what a request wants evaluated. An instant query has start
// equal to end and no step.
type Evaluation struct {
	Query      string
	Start, End time.Time
	Step       time.Duration
	Timeout    time.Duration
	Lookback   time.Duration
}

// Parse reads the parameters of a query as Prometheus does, with its
// words for what is wrong.
func Parse(r *http.Request, now time.Time) (Evaluation, error) {
	e := Evaluation{Query: r.FormValue("query"), Start: now, End: now}
	var err error
	if IsRange(r.Form) {
		if e.Start, err = Time(r.FormValue("start")); err != nil {
			return e, invalid("start", err)
		}
		if e.End, err = Time(r.FormValue("end")); err != nil {
			return e, invalid("end", err)
		}
		if e.End.Before(e.Start) {
			return e, invalid("end", errors.New("end timestamp must not be before start time"))
		}
		if e.Step, err = Duration(r.FormValue("step")); err != nil {
			return e, invalid("step", err)
		}
		if e.Step <= 0 {
			return e, invalid("step", errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"))
		}
		if e.End.Sub(e.Start)/e.Step > maxPoints {
			return e, errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
		}
	} else if s := r.FormValue("time"); s != "" {
		if e.Start, err = Time(s); err != nil {
			return e, invalid("time", err)
		}
		e.End = e.Start
	}
	if s := r.FormValue("timeout"); s != "" {
		if e.Timeout, err = Duration(s); err != nil {
			return e, invalid("timeout", err)
		}
	}
	if s := r.FormValue("lookback_delta"); s != "" {
		if e.Lookback, err = Duration(s); err != nil {
			return e, fmt.Errorf("error parsing lookback delta duration: %w", err)
		}
	}
	return e, nil
}

// IsRange reports whether a form asks for a range query.
func IsRange(f url.Values) bool {
	return f.Get("start") != "" || f.Get("end") != "" || f.Get("step") != ""
}

// Error is what is wrong with a parameter.
type Error struct {
	Parameter string
	Err       error
}

func (e *Error) Error() string { return fmt.Sprintf("invalid parameter %q: %v", e.Parameter, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

func invalid(parameter string, err error) error { return &Error{parameter, err} }

// Time reads seconds since the epoch, to the millisecond, or RFC 3339.
func Time(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if ms := math.Round(f * 1000); math.Abs(ms) < math.MaxInt64/2 {
			return time.UnixMilli(int64(ms)).UTC(), nil
		}
	} else if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// Duration reads seconds or a Prometheus duration such as 5m.
func Duration(s string) (time.Duration, error) {
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
