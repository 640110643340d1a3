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
