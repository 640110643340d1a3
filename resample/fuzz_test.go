package resample

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// check parses and plans a form: what is wrong is an *Error that is not long, and what is not has a
// grid.
func check(t *testing.T, f url.Values) {
	var wrong *Error
	r, err := Parse(f, now, known)
	if err == nil {
		require.NotEmpty(t, r.Selectors)
		require.NotEmpty(t, r.Aggregates)
		require.Less(t, r.Start, r.End)
		var p *Plan
		if p, err = NewPlan(r); err == nil {
			require.NotZero(t, p.Grid.N())
			require.LessOrEqual(t, p.from, p.Grid.Starts[0])
			require.LessOrEqual(t, p.Grid.Starts[0], p.Grid.Ends[p.Grid.N()-1])
			return
		}
	}
	require.True(t, errors.As(err, &wrong), err)
	require.NotEmpty(t, wrong.Code)
	longest := 0
	for name, values := range f {
		for _, v := range values {
			longest = max(longest, len(name), len(v))
		}
	}
	require.Less(t, len(err.Error()), 2000+8*longest, err)
}

// quick reports whether a form may be planned within the time of a fuzzer: with fewer buckets than
// a request may have.
func quick(f url.Values) bool {
	return !strings.Contains(f.Get("every"), "ms") && f.Get("every") != "1"
}

// FuzzForm parses any form.
func FuzzForm(f *testing.F) {
	for _, layout := range layoutForms {
		f.Add("metric=m&start=-1y&aggregates=" + everyAggregate + "&" + layout)
	}
	f.Add("match[]={a=~\"b.*\"}&start=now-1M&end=now&every=1d&timezone=Pacific/Apia&reaggregate=median&without=a,b&fill=-1e300")
	f.Add("metric=m&start=0001-01-01T00:00:00Z&end=9999-12-31T00:00:00Z&every=1000y&origin=-1e10&offset=-999y&aggregates=0pct,100pct")
	f.Add("metric=m&start=1e9&end=253402300799&every=1e10&period=3e10&closed=right&label=right&aggregates=twa,nunique")
	f.Fuzz(func(t *testing.T, text string) {
		if form, err := url.ParseQuery(text); err == nil && quick(form) {
			check(t, form)
		}
	})
}

// TestRelativeTimes: what times mean, in a zone where a day had 23 hours.
func TestRelativeTimes(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	now := time.Date(2026, 3, 30, 12, 0, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"now": now, "-1d": now.Add(-24 * time.Hour), "now-2d": now.Add(-47 * time.Hour), "-24h": now.Add(-24 * time.Hour), "-1M": time.Date(2026, 2, 28, 12, 0, 0, 0, zone),
		"-90s": now.Add(-90 * time.Second), "-5": time.Unix(-5, 0), "1e9": time.Unix(1e9, 0), "2026-03-01T00:00:00+01:00": time.Date(2026, 3, 1, 0, 0, 0, 0, zone), "1.0015": time.UnixMilli(1002),
	} {
		p := &parsing{now: now}
		p.r.Layout.Zone = zone
		got, err := p.time(text)
		require.NoError(t, err, text)
		require.Equal(t, want.UnixMilli(), got, text)
	}
}
