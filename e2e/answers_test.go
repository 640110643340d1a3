package e2e

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	queryPath = "/api/v1/query"
	rangePath = "/api/v1/query_range"
)

// requireAnswers asks for a range at two URLs, and requires that the second answers twice as the
// first does.
func requireAnswers(t *testing.T, form url.Values, first, second string) {
	t.Helper()
	want := ask(t, first, rangePath, form)
	require.Equal(t, http.StatusOK, want.code, "%s", want.body)
	requireSame(t, want, ask(t, second, rangePath, form), false, "first")
	requireSame(t, want, ask(t, second, rangePath, form), false, "repeated")
}

// Over a day, promwarp answers what Prometheus answers: at first, when it must
// fetch, and again, when it need not.
func TestRangeAnswers(t *testing.T) {
	up := upstream(t)
	pw := promwarp(t, up.url)
	for _, q := range dashboard {
		t.Run(q, func(t *testing.T) {
			requireAnswers(t, up.grid.rangeForm(q), up.url, pw.url)
		})
	}
	t.Run("other grids", func(t *testing.T) {
		const q = `sum by (job) (rate(http_requests_total[5m]))`
		for _, g := range []grid{
			{up.grid.end.Add(-time.Hour), up.grid.end, 15 * time.Second},
			{up.grid.start.Add(333 * time.Millisecond), up.grid.end, 7 * time.Minute},
			{up.grid.start.Add(-2 * time.Hour), up.grid.start.Add(time.Hour), time.Minute},
			{up.grid.end, up.grid.end.Add(10 * time.Minute), 13 * time.Second},
			{up.grid.end, up.grid.end, time.Minute},
		} {
			form := g.rangeForm(q)
			requireSame(t, ask(t, up.url, rangePath, form), ask(t, pw.url, rangePath, form), false, form.Encode())
		}
	})
}

func TestInstantAnswers(t *testing.T) {
	up := upstream(t)
	pw := promwarp(t, up.url)
	for _, q := range instant {
		t.Run(q.query, func(t *testing.T) {
			for _, at := range []time.Time{up.grid.end, up.grid.start.Add(7*time.Hour + 123*time.Millisecond)} {
				form := instantForm(q.query, at)
				want := ask(t, up.url, queryPath, form)
				require.Equal(t, http.StatusOK, want.code, "%s", want.body)
				requireSame(t, want, ask(t, pw.url, queryPath, form), q.ordered, "first")
				requireSame(t, want, ask(t, pw.url, queryPath, form), q.ordered, "repeated")
			}
		})
	}
}

// What is wrong with a request is said in Prometheus's words.
func TestErrorAnswers(t *testing.T) {
	up := upstream(t)
	pw := promwarp(t, up.url)
	with := func(form url.Values, key, value string) url.Values {
		form.Set(key, value)
		return form
	}
	ok := func() url.Values { return up.grid.rangeForm("up") }
	for name, c := range map[string]struct {
		path string
		form url.Values
	}{
		"parse error":         {rangePath, with(ok(), "query", "sum(rate(up[5m])")},
		"unknown function":    {rangePath, with(ok(), "query", "speed(up)")},
		"wrong type":          {rangePath, with(ok(), "query", "rate(up)")},
		"matrix over a range": {rangePath, with(ok(), "query", "up[5m]")},
		"no query":            {rangePath, with(ok(), "query", "")},
		"end before start":    {rangePath, with(ok(), "end", seconds(up.grid.start.Add(-time.Second)))},
		"step of zero":        {rangePath, with(ok(), "step", "0")},
		"negative step":       {rangePath, with(ok(), "step", "-15")},
		"step is no number":   {rangePath, with(ok(), "step", "fast")},
		"too many steps":      {rangePath, with(ok(), "step", "1")},
		"start is no time":    {rangePath, with(ok(), "start", "today")},
		"timeout is none":     {rangePath, with(ok(), "timeout", "soon")},
		"many to many":        {rangePath, with(ok(), "query", `up{job="job-1"} * on (job) up{job="job-1"}`)},
		"duplicate labels":    {queryPath, instantForm(`label_replace(up, "instance", "x", "", "")`, up.grid.end)},
		"scalar of a string":  {queryPath, instantForm(`scalar("x")`, up.grid.end)},
		"time is none":        {queryPath, with(instantForm("up", up.grid.end), "time", "noon")},
		"bad matcher":         {queryPath, instantForm(`{job=~"("}`, up.grid.end)},
		"empty matchers":      {queryPath, instantForm(`{job=~".*"}`, up.grid.end)},
	} {
		t.Run(name, func(t *testing.T) {
			want := ask(t, up.url, c.path, c.form)
			require.NotEqual(t, http.StatusOK, want.code)
			requireSame(t, want, ask(t, pw.url, c.path, c.form), false, c.form.Encode())
		})
	}
}
