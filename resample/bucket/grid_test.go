package bucket

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func Example() {
	every, _ := ParseSpan("5m")
	g, _ := Layout{Every: every}.Grid(0, 900_000)
	ts := []int64{10_000, 299_999, 300_000, 650_000, 900_000}
	for _, r := range g.CountUniqs(ts, nil) {
		fmt.Println(g.Labels[r.Bucket]/1000, ts[r.First:r.End])
	}
	// Output:
	// 0 [10000 299999]
	// 300 [300000]
	// 600 [650000]
}

func span(t require.TestingT, text string) Span {
	s, err := ParseSpan(text)
	require.NoError(t, err, text)
	return s
}

func zone(t require.TestingT, name string) *time.Location {
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

// TestCalendar: where buckets of the calendar begin.
func TestCalendar(t *testing.T) {
	for _, c := range []struct {
		name, every, zone, start, end string
		offset                        time.Duration
		origin                        string
		want                          []string
	}{
		{name: "a day of 23 hours", every: "1d", zone: "Europe/Berlin", start: "2026-03-28T12:00:00+01:00", end: "2026-03-30T12:00:00+02:00",
			want: []string{"2026-03-28T00:00:00+01:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"}},
		{name: "a day of 25 hours, from six on", every: "1d", zone: "Europe/Berlin", offset: 6 * time.Hour, start: "2026-10-24T06:00:00+02:00", end: "2026-10-26T06:00:00+01:00",
			want: []string{"2026-10-24T06:00:00+02:00", "2026-10-25T06:00:00+01:00"}},
		{name: "a midnight that the clock left out", every: "1d", zone: "America/Sao_Paulo", start: "2018-11-03T00:00:00-03:00", end: "2018-11-05T00:00:00-02:00",
			want: []string{"2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00"}},
		{name: "a midnight that came twice", every: "1d", zone: "America/Havana", start: "2026-10-31T00:00:00-04:00", end: "2026-11-02T00:00:00-05:00",
			want: []string{"2026-10-31T00:00:00-04:00", "2026-11-01T00:00:00-04:00"}},
		{name: "an hour before midnight that came twice", every: "1d", zone: "America/Sao_Paulo", start: "2018-02-17T00:00:00-02:00", end: "2018-02-19T00:00:00-03:00",
			want: []string{"2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"}},
		{name: "a day that the calendar left out", every: "1d", zone: "Pacific/Apia", start: "2011-12-29T00:00:00-10:00", end: "2012-01-01T00:00:00+14:00",
			want: []string{"2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"}},
		{name: "weeks begin on Mondays", every: "1w", zone: "UTC", start: "2026-01-01T00:00:00Z", end: "2026-01-13T00:00:00Z",
			want: []string{"2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"}},
		{name: "months with a leap day", every: "1M", zone: "UTC", start: "2024-02-10T00:00:00Z", end: "2024-04-01T00:00:00Z",
			want: []string{"2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"}},
		{name: "quarters", every: "1q", zone: "Asia/Tokyo", start: "2024-02-10T00:00:00+09:00", end: "2024-08-01T00:00:00+09:00",
			want: []string{"2024-01-01T00:00:00+09:00", "2024-04-01T00:00:00+09:00", "2024-07-01T00:00:00+09:00"}},
		{name: "fiscal years", every: "1y", zone: "UTC", origin: "2000-04-06T00:00:00Z", start: "1999-05-01T00:00:00Z", end: "2001-05-01T00:00:00Z",
			want: []string{"1999-04-06T00:00:00Z", "2000-04-06T00:00:00Z", "2001-04-06T00:00:00Z"}},
		{name: "six hours begin at midnight where the zone was then", every: "6h", zone: "Asia/Kolkata", start: "2026-01-01T00:00:00+05:30", end: "2026-01-01T12:00:00+05:30",
			want: []string{"2026-01-01T00:00:00+05:30", "2026-01-01T06:00:00+05:30"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := func(s string) int64 {
				x, err := time.Parse(time.RFC3339, s)
				require.NoError(t, err)
				return x.UnixMilli()
			}
			l := Layout{Every: span(t, c.every), Zone: zone(t, c.zone), Offset: c.offset.Milliseconds()}
			if c.origin != "" {
				l.Origin, l.HasOrigin = at(c.origin), true
			}
			g, err := l.Grid(at(c.start), at(c.end))
			require.NoError(t, err)
			var got []string
			for _, s := range g.Starts {
				got = append(got, time.UnixMilli(s).In(l.Zone).Format(time.RFC3339))
			}
			require.Equal(t, c.want, got)
			require.Equal(t, g.Starts[1:], g.Ends[:g.N()-1])
		})
	}
}

// TestRefused: layouts that have no grid.
func TestRefused(t *testing.T) {
	l := Layout{Every: span(t, "1ms")}
	_, err := l.Grid(0, 1e9)
	require.ErrorIs(t, err, ErrTooMany)
	_, err = Layout{Every: span(t, "1h")}.Grid(0, 3599_999)
	require.ErrorIs(t, err, ErrTooLong)
	_, err = Layout{Every: span(t, "1M")}.Grid(4*dayMs, 20*dayMs)
	require.ErrorIs(t, err, ErrTooLong)
	_, err = Layout{Every: span(t, "1h"), Period: span(t, "1d")}.Grid(0, dayMs)
	require.ErrorIs(t, err, ErrTwoClocks)
	_, err = Layout{Every: span(t, "1M"), Origin: 30 * dayMs, HasOrigin: true}.Grid(0, 100*dayMs)
	require.ErrorIs(t, err, ErrMonthEnd)
	for _, s := range []string{"", "5", "5x", "1M2d", "9999999999d", "1e300", "NaN", "2000y"} {
		_, err := ParseSpan(s)
		require.Equal(t, s == "5", err == nil, s)
	}
}

var spans = []string{"1s", "7s", "1m", "13m", "1h", "1d", "2d", "1w", "1M", "1y", "90s"}

var zones = []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"}

// layouts draws a layout and a range of some of its buckets.
func layouts(t *rapid.T) (l Layout, start, end int64) {
	l.Every = span(t, rapid.SampledFrom(spans).Draw(t, "every"))
	if rapid.Bool().Draw(t, "with a period") {
		l.Period = span(t, rapid.SampledFrom(spans).Filter(func(s string) bool {
			p := span(t, s)
			return p.Millis() < 50*l.Every.Millis() && (l.Every.Unit != Millisecond || p.Unit == Millisecond)
		}).Draw(t, "period"))
	}
	l.Zone = zone(t, rapid.SampledFrom(zones).Draw(t, "zone"))
	l.Offset = rapid.Int64Range(-10_000, 10_000).Draw(t, "offset") * rapid.Int64Range(0, 400).Draw(t, "times")
	if l.Every.Unit == Month {
		l.Offset = max(l.Offset, 0)
	}
	l.ClosedRight, l.LabelRight = rapid.Bool().Draw(t, "closed right"), rapid.Bool().Draw(t, "label right")
	start = rapid.Int64Range(-3e11, 2e12).Draw(t, "start")
	n := rapid.Float64Range(1.1, 40).Draw(t, "buckets")
	return l, start, start + int64(max(n*l.Every.Millis(), 2*l.Every.Millis()+2*dayMs*float64(l.Every.Unit)))
}

// TestWindows: buckets follow one another, cover the range, do not depend on it, and each sample
// is in those runs whose window it is in.
func TestWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, start, end := layouts(t)
		g, err := l.Grid(start, end)
		require.NoError(t, err)
		wider, err := l.Grid(start-int64(3*l.Every.Millis()), end+1000)
		require.NoError(t, err)
		at := slices.Index(wider.Labels, g.Labels[0])
		require.GreaterOrEqual(t, at, 0)
		require.Equal(t, g.Starts, wider.Starts[at:at+g.N()])
		require.Equal(t, g.Ends, wider.Ends[at:at+g.N()])

		later := int64(0)
		if l.ClosedRight {
			later = 1
		}
		lo, hi := start+later, end+later
		if l.Period == (Span{}) || l.Period == l.Every {
			require.LessOrEqual(t, g.Starts[0], lo)
			require.Greater(t, g.Ends[0], lo)
			require.GreaterOrEqual(t, g.Ends[g.N()-1], hi)
			require.Equal(t, g.Starts[1:], g.Ends[:g.N()-1])
			label := g.Starts
			if l.LabelRight {
				label = g.Ends
			}
			for k := range label {
				require.Equal(t, label[k]-later, g.Labels[k])
			}
		}
		require.True(t, slices.IsSorted(g.Starts) && slices.IsSorted(g.Ends) && slices.IsSorted(g.Labels))

		ts := rapid.SliceOfN(rapid.Int64Range(start-(end-start)/4, end+(end-start)/4), 0, 60).Draw(t, "times")
		for _, k := range rapid.SliceOfN(rapid.IntRange(0, g.N()-1), 0, 20).Draw(t, "edges") {
			ts = append(ts, g.Starts[k], g.Ends[k], g.Ends[k]-1)
		}
		slices.Sort(ts)
		ts = slices.Compact(ts)
		var want []Run
		for k := range g.Starts {
			r := Run{Bucket: int32(k)}
			for i, x := range ts {
				if x < g.Starts[k] {
					r.First = int32(i + 1)
				}
				if x < g.Ends[k] {
					r.End = int32(i + 1)
				}
			}
			if r.End > r.First {
				want = append(want, r)
			}
		}
		require.Equal(t, want, g.CountUniqs(ts, nil))
	})
}
