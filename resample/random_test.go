package resample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/resample/aggregate"
)

// randomSeries are series with gaps, samples that repeat, are stale, NaN or infinite.
// With huge some are so large that the order in which they are added up shows.
func randomSeries(r *rand.Rand, start, end int64, huge bool) (all []samples) {
	kinds := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Float64frombits(value.StaleNaN), math.Copysign(0, -1)}
	if huge {
		kinds = append(kinds, math.MaxFloat64, -math.MaxFloat64)
	}
	odd := []float64{0, 0, 0.02, 0.3}[r.IntN(4)]
	for i := range 1 + r.IntN(12) {
		s := samples{labels: labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%02d", i), "job", fmt.Sprint(r.IntN(3)))}
		step := max(1, (end-start)/(1+r.Int64N(400)))
		scale := math.Pow(10, float64(r.IntN(8)))
		total := 0.0
		for t := start - (end-start)/5 + r.Int64N(step); t < end+(end-start)/5; t += 1 + step/2 + r.Int64N(step) {
			if r.IntN(60) == 0 {
				t += step * r.Int64N(80)
			}
			v := 0.0
			switch i % 4 {
			case 0:
				v = r.NormFloat64() * scale
			case 1:
				total += float64(r.IntN(40))
				if r.IntN(50) == 0 {
					total = 0
				}
				v = total
			case 2:
				v = float64(r.IntN(4))
			case 3:
				v = 1e9 + r.Float64()
			}
			if r.Float64() < odd {
				v = kinds[r.IntN(len(kinds))]
			}
			s.ts, s.vs = append(s.ts, t), append(s.vs, v)
		}
		all = append(all, s)
	}
	return all
}

// everyAggregate is all aggregates, of samples and of differences between them.
var everyAggregate = func() string {
	names := aggregate.Library{}.Names()
	return strings.Join(names, ",") + ",0pct,99.9pct,rate:" + strings.Join(names, ",rate:")
}()

var (
	groupings    = []string{"", "", "&by=job", "&without=i", "&by=", "&by=job&reaggregate=sum", "&reaggregate=median", "&reaggregate=mean&by=job", "&reaggregate=std", "&reaggregate=max&without=job"}
	fillingForms = []string{"", "", "&fill=null", "&fill=prev", "&fill=linear", "&fill=-1.5"}
	layoutForms  = []string{"every=1m", "every=7s", "every=5m&closed=right", "every=1m&period=150s", "every=1m&period=150s&closed=right", "every=1m&period=20s&label=right", "every=90s&offset=13s&origin=1111.5",
		"every=1d&timezone=Europe/Berlin", "every=1d&timezone=America/Havana&closed=right", "every=1w", "every=1M&timezone=Australia/Lord_Howe", "every=1d&period=1w&timezone=Europe/Berlin", "every=1M&period=1w", "every=1y"}
)

// randomRequest is a form over a time that buckets are found in: around a change of clocks, a leap
// day, or any.
func randomRequest(r *rand.Rand) string {
	layout := layoutForms[r.IntN(len(layoutForms))]
	f := fmt.Sprintf("metric=m&%s&aggregates=%s", layout, everyAggregate)
	around := []int64{1_774_746_000, 1_793_494_800, 1_709_164_800, 1_700_000_000 + r.Int64N(1e7)}[r.IntN(4)]
	length := map[byte]int64{'s': 60, 'm': 300, 'd': 86400, 'w': 7 * 86400, 'M': 31 * 86400, 'y': 366 * 86400}
	unit := byte('s')
	for i := len("every="); i < len(layout) && layout[i] != '&'; i++ {
		unit = layout[i]
	}
	buckets := 1 + r.Int64N(20)
	start := around - buckets*length[unit] + r.Int64N(length[unit])
	return f + fmt.Sprintf("&start=%d&end=%d", start, around+length[unit]*(1+buckets)) + groupings[r.IntN(len(groupings))] + fillingForms[r.IntN(len(fillingForms))]
}

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
