package promapi

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

// Evaluation is what a request wants evaluated. An instant query has start
// equal to end and no step.
type Evaluation struct {
	Query      string
	Start, End time.Time
	Step       time.Duration
	Timeout    time.Duration
	Lookback   time.Duration
	Limit      int // of series in the answer; 0 is none
	// MaxSeries and MaxSamples are the most that the query may read; 0 sets no limit.
	MaxSeries, MaxSamples int64
}

// Parse reads the parameters of a query for promwarp's own endpoints, where start, end and step
// make it a range query. Unlike Prometheus it refuses numbers that are no times.
func Parse(r *http.Request, now time.Time) (Evaluation, error) {
	for _, name := range []string{"time", "start", "end", "step", "timeout", "lookback_delta"} {
		if f, err := strconv.ParseFloat(r.FormValue(name), 64); err == nil && !isTime(f) {
			return Evaluation{}, WrongParameter(name, errTime(r.FormValue(name)))
		}
	}
	return ParseAs(r.Form.Get("start") != "" || r.Form.Get("end") != "" || r.Form.Get("step") != "", r, now)
}

// ParseAs reads the parameters of an instant or a range query as Prometheus does.
func ParseAs(ranged bool, r *http.Request, now time.Time) (e Evaluation, err error) {
	e.Query = r.FormValue("query")
	if e.MaxSeries, err = ceiling(r, "max_series", MaxSeriesHeader); err != nil {
		return e, err
	}
	if e.MaxSamples, err = ceiling(r, "max_samples", MaxSamplesHeader); err != nil {
		return e, err
	}
	if s := r.FormValue("limit"); s != "" {
		if e.Limit, err = Limit(s); err != nil {
			return e, err
		}
	}
	if !ranged {
		if e.Start, err = TimeOr(r, "time", now); err != nil {
			return e, err
		}
		e.End = e.Start
	} else {
		if e.Start, err = prometheusTime(r.FormValue("start")); err != nil {
			return e, WrongParameter("start", err)
		}
		if e.End, err = prometheusTime(r.FormValue("end")); err != nil {
			return e, WrongParameter("end", err)
		}
		if e.End.Before(e.Start) {
			return e, WrongParameter("end", errors.New("end timestamp must not be before start time"))
		}
		if e.Step, err = Duration(r.FormValue("step")); err != nil {
			return e, WrongParameter("step", err)
		}
		if e.Step <= 0 {
			return e, WrongParameter("step", errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"))
		}
		if e.End.Sub(e.Start)/e.Step > maxPoints {
			return e, errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
		}
	}
	if s := r.FormValue("timeout"); s != "" {
		if e.Timeout, err = Duration(s); err != nil {
			return e, WrongParameter("timeout", err)
		}
	}
	if s := r.FormValue("lookback_delta"); s != "" {
		if e.Lookback, err = Duration(s); err != nil {
			return e, fmt.Errorf("error parsing lookback delta duration: %w", err)
		}
	}
	return e, nil
}

// The headers that say the same as the parameters max_series and max_samples.
const (
	MaxSeriesHeader  = "X-Promwarp-Max-Series"
	MaxSamplesHeader = "X-Promwarp-Max-Samples"
)

// ceiling reads the most of something that a query may read, from a parameter and from a header: the
// lower one counts, so that a proxy's header holds whatever the client sends. 0 is none.
func ceiling(r *http.Request, parameter, header string) (most int64, err error) {
	for name, value := range map[string]string{parameter: r.FormValue(parameter), header: r.Header.Get(header)} {
		if value == "" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return 0, WrongParameter(name, fmt.Errorf("cannot parse %.100q: use a whole number from 0, which sets no limit", value))
		}
		if n > 0 && (most == 0 || n < most) {
			most = n
		}
	}
	return most, nil
}

// ParameterError is the error of a parameter, or of the request where Parameter is empty.
type ParameterError struct {
	Parameter string
	Err       error
}

func (e *ParameterError) Error() string {
	if e.Parameter == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("invalid parameter %q: %v", e.Parameter, e.Err)
}

func (e *ParameterError) Unwrap() error { return e.Err }

// WrongParameter returns a *ParameterError.
func WrongParameter(parameter string, err error) error { return &ParameterError{parameter, err} }

// Bool reads a parameter that is true or false, and false where it is not there.
func Bool(r *http.Request, parameter string) (bool, error) {
	s := r.FormValue(parameter)
	if s == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(s)
	if err != nil {
		return false, WrongParameter(parameter, fmt.Errorf("cannot parse %.100q: use true or false", s))
	}
	return v, nil
}

// Limit reads the most elements of an answer, 0 for no limit.
func Limit(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		err = errors.New("limit must be non-negative")
	}
	if err != nil {
		return 0, WrongParameter("limit", err)
	}
	return n, nil
}

// The times that stand for no bound in Prometheus's API. Go writes them, but does not read them.
var (
	MinTime = time.Unix(math.MinInt64/1000+62135596801, 0).UTC()
	MaxTime = time.Unix(math.MaxInt64/1000-62135596801, 999999999).UTC()
)

// TimeOr reads a parameter that need not be there, as Prometheus does.
func TimeOr(r *http.Request, parameter string, otherwise time.Time) (time.Time, error) {
	s := r.FormValue(parameter)
	if s == "" {
		return otherwise, nil
	}
	t, err := prometheusTime(s)
	if err != nil {
		return t, WrongParameter(parameter, fmt.Errorf("invalid time value for '%s': %w", parameter, err))
	}
	return t, nil
}

// Time reads seconds since the epoch, to the millisecond, or RFC 3339.
func Time(s string) (time.Time, error) {
	t, err := prometheusTime(s)
	if f, number := strconv.ParseFloat(s, 64); number == nil && !isTime(f) {
		return t, errTime(s)
	}
	return t, err
}

// isTime reports whether a number of seconds can be a time.
func isTime(f float64) bool { return math.Abs(f) < math.MaxInt64/2000 }

func errTime(s string) error { return fmt.Errorf("cannot parse %q to a valid timestamp", s) }

// prometheusTime is Time, but takes all numbers, as Prometheus does.
func prometheusTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		whole, part := math.Modf(f) // cut to milliseconds as Prometheus does it
		return time.Unix(int64(whole), int64(math.Round(part*1000)/1000*float64(time.Second))).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	switch s {
	case MinTime.Format(time.RFC3339Nano):
		return MinTime, nil
	case MaxTime.Format(time.RFC3339Nano):
		return MaxTime, nil
	}
	return time.Time{}, errTime(s)
}

// Duration reads seconds or a Prometheus duration such as 5m.
func Duration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if ns := f * float64(time.Second); !(math.Abs(ns) >= math.MaxInt64) {
			return time.Duration(ns), nil // what is no number is less than all durations
		}
		return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
	}
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
	}
	return time.Duration(d), nil
}
