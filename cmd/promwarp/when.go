package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// parseWhen reads a time: RFC 3339, seconds since the epoch, now, or relative
// to now such as -24h or now-1d.
func parseWhen(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < math.MaxInt64/2000 {
		return time.UnixMilli(int64(math.Round(f * 1000))).UTC(), nil
	}
	relative := strings.TrimPrefix(text, "now")
	if rest, ok := strings.CutPrefix(relative, "-"); ok {
		if d, err := model.ParseDuration(rest); err == nil {
			return now.Add(-time.Duration(d)), nil
		}
	} else if rest, ok := strings.CutPrefix(relative, "+"); ok {
		if d, err := model.ParseDuration(rest); err == nil {
			return now.Add(time.Duration(d)), nil
		}
	}
	return time.Time{}, fmt.Errorf("not a time: %q; write one such as 2026-01-02T15:04:05Z, 1767366245, now or -24h", text)
}

// parseStep reads seconds or a Prometheus duration.
func parseStep(text string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(text, 64); err == nil && f > 0 && f < math.MaxInt64/1e9 {
		return time.Duration(f * float64(time.Second)), nil
	}
	d, err := model.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("not a step: %q; write one such as 30s, 5m or 60", text)
	}
	return time.Duration(d), nil
}

// defaultStep spreads about 250 points over a range, on a step that is at least
// a second, as Prometheus's page does.
func defaultStep(start, end time.Time) time.Duration {
	return max(end.Sub(start)/250, time.Second).Truncate(time.Second)
}
