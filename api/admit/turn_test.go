package admit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/queue"
)

// TestList: a request is listed while it waits and while it is evaluated, with what was fetched for
// it, and gone once it is answered or cancelled.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Gate{Queries: queue.New(queue.Limits{Slots: 1, MaxWaiting: 1}, nil), Timeout: time.Minute}
		slot, err := l.Queries.Enter(t.Context(), "")
		require.NoError(t, err)
		done := make(chan error, 1)
		r := httptest.NewRequest(http.MethodGet, "/query", nil)
		r.Form = url.Values{"query": {"up"}, "executor": {"cpu"}}
		go func() {
			e, r, err := l.Query(httptest.NewRecorder(), r, "/query")
			if err != nil {
				done <- err
				return
			}
			defer e.End()
			e.Stats.FetchedBytes.Add(7)
			e.Stats.Samples.Add(5)
			e.Progress.Evaluate(4)
			defer e.Progress.Fetch()()
			e.Progress.Arrive(9)
			<-r.Context().Done()
			done <- context.Cause(r.Context())
		}()
		synctest.Wait()
		since := time.Now().UTC()
		require.Equal(t, []Request{{ID: 1, Query: "up", Door: "/query", Executor: "cpu", Since: since, Waiting: true, Stage: "waiting"}}, l.Requests())

		time.Sleep(3 * time.Second)
		slot.Leave()
		synctest.Wait()
		require.Equal(t, []Request{{ID: 1, Query: "up", Door: "/query", Executor: "cpu", Since: since, Seconds: 3, Stage: "fetching", FetchedBytes: 9, Samples: 5, SamplesEvaluated: 4}}, l.Requests())
		require.False(t, l.Cancel(2))
		require.True(t, l.Cancel(1))
		require.ErrorIs(t, <-done, context.Canceled)
		synctest.Wait()
		require.Empty(t, l.Requests())
		require.False(t, l.Cancel(1))
	})
}

// TestText: a resample request is listed as a form, and what is long is cut.
func TestText(t *testing.T) {
	text := func(form url.Values) string {
		turn := Turn{gate: &Gate{}}
		turn.list(form)
		return turn.Query
	}
	require.Equal(t, "every=5m&metric=m", text(url.Values{"metric": {"m"}, "every": {"5m"}}))
	require.Equal(t, strings.Repeat("x", longestText)+"…", text(url.Values{"query": {strings.Repeat("x", longestText+1)}}))
}
