package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/fanout"
	"github.com/promwarp/promwarp/remoteread"
)

// coreModes are those that need no GPU.
var coreModes = []Mode{Auto, CPU, Prometheus}

// exec asks ours in a mode and returns the answer without its warnings, these, and
// the error.
func (c *comparison) exec(t *testing.T, ctx context.Context, mode Mode, st storage.Queryable, ask question) (string, annotations.Annotations, error) {
	q, err := ask.on(inMode{c.ours, mode}, st)
	require.NoError(t, err)
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return "", nil, res.Err
	}
	warnings := annotations.Annotations{}
	for text, w := range res.Warnings {
		var partial *fanout.PartialWarning
		if errors.As(w, &partial) {
			warnings[text] = w
			delete(res.Warnings, text)
		}
	}
	return summary(res, ask.query), warnings, nil
}

// stockOver is the answer of Prometheus's engine over the TSDBs which.
func (s *remotes) stockOver(t *testing.T, c *comparison, ask question, which ...int) string {
	var rest []storage.Storage
	for _, i := range which[1:] {
		rest = append(rest, s.dbs[i])
	}
	q, err := ask.on(c.stock, storage.NewFanout(nil, s.dbs[which[0]], rest...))
	require.NoError(t, err)
	defer q.Close()
	return summary(q.Exec(t.Context()), ask.query)
}

var faultQuestion = question{query: "sum by (job) (rate(reqs_total[5m])) - sum by (job) (rate(errs_total[5m]))", start: 1_200_000, end: 3_000_000, step: 60_000}

func TestUpstreamThatIsNeededFails(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 1))
	s := newRemotes(t, 2, []bool{true, false}, false)
	s.spread(t, r, randomStorage(t, r))
	c := newComparison(false, 2)
	for _, mode := range coreModes {
		s.down(1)
		_, _, err := c.exec(t, t.Context(), mode, s.ours, faultQuestion)
		var up *remoteread.Error
		require.ErrorAs(t, err, &up, mode)
		require.Equal(t, 503, up.StatusCode)
		s.up(1)
		got, warnings, err := c.exec(t, t.Context(), mode, s.ours, faultQuestion)
		require.NoError(t, err)
		require.Empty(t, warnings)
		require.Equal(t, s.stockOver(t, c, faultQuestion, 0, 1), got)
		s.clear()
	}
}

func TestOptionalUpstreamFails(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 2))
	s := newRemotes(t, 2, []bool{false, true}, false)
	s.spread(t, r, randomStorage(t, r))
	c := newComparison(false, 2)
	for _, mode := range coreModes {
		s.down(1)
		got, warnings, err := c.exec(t, t.Context(), mode, s.ours, faultQuestion)
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		require.Contains(t, fmt.Sprint(warnings), "partial answer, without anything of the upstream db1: remote read from http://")
		require.Equal(t, s.stockOver(t, c, faultQuestion, 0), got)

		// Prometheus says the same of its remote storages.
		q, err := faultQuestion.on(c.stock, s.theirs)
		require.NoError(t, err)
		res := q.Exec(t.Context())
		require.NoError(t, res.Err)
		require.Len(t, res.Warnings, 1)
		res.Warnings = nil
		require.Equal(t, summary(res, faultQuestion.query), got)
		q.Close()

		// What cannot carry a warning gets an error.
		_, _, err = c.exec(t, fanout.Whole(t.Context()), mode, s.ours, faultQuestion)
		require.ErrorContains(t, err, "503")

		// It was not taken for a whole answer.
		s.up(1)
		whole := s.stockOver(t, c, faultQuestion, 0, 1)
		require.NotEqual(t, whole, got)
		got, warnings, err = c.exec(t, t.Context(), mode, s.ours, faultQuestion)
		require.NoError(t, err)
		require.Empty(t, warnings)
		require.Equal(t, whole, got)

		// What is kept of it needs it no more.
		s.down(1)
		got, warnings, err = c.exec(t, t.Context(), mode, s.ours, faultQuestion)
		require.NoError(t, err)
		require.Empty(t, warnings)
		require.Equal(t, whole, got)
		s.clear()
	}
}

// TestUpstreamFailsWithinAQuery: an upstream that answers the first selector of a
// query and not the second is left out of both.
func TestUpstreamFailsWithinAQuery(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 3))
	s := newRemotes(t, 2, []bool{false, true}, false)
	s.spread(t, r, randomStorage(t, r))
	c := newComparison(false, 2)
	for _, mode := range coreModes {
		s.clear()
		s.allow[1].Store(1)
		before := s.reads[1].Load()
		got, warnings, err := c.exec(t, t.Context(), mode, s.ours, faultQuestion)
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		require.Equal(t, s.stockOver(t, c, faultQuestion, 0), got)
		require.Equal(t, before+2, s.reads[1].Load(), "not asked again")
	}
}

// TestFlakyUpstreams has upstreams fail at random. Each answer must be what
// Prometheus's engine says over the upstreams that no warning names: over these
// alone for all selectors of the query, or over all.
func TestFlakyUpstreams(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	s := newRemotes(t, 3, []bool{true, false, true}, false)
	s.spread(t, r, randomStorage(t, r))
	c := newComparison(false, 2)
	seen := map[int]int{}
	for k := range 400 {
		for i := range s.flaky {
			s.flaky[i].Store(0)
			if i != 1 && r.IntN(2) == 0 {
				s.flaky[i].Store(int64(2 + r.IntN(3)))
			}
		}
		for _, c := range s.caches {
			if r.IntN(2) == 0 {
				c.Clear()
			}
		}
		ask := faultQuestion
		ask.start = int64(r.IntN(3600)) * 1000
		ask.end = ask.start + int64(r.IntN(1800))*1000
		ask.query = []string{
			faultQuestion.query,
			"max by (job) (temp) + on (job) group_left () (max by (job) (reqs_total) - on (job) min by (job) (errs_total))",
			"count(reqs_total) + count(temp offset 3m) + count(temp) + count(errs_total)",
			"sum by (job) (count_over_time(temp[10m])) / count by (job) (last_over_time({__name__=~\"temp|reqs_total\"}[10m]))",
			`label_replace(reqs_total, "n", "$1", "__name__", "(.*)") or temp or errs_total`,
		}[k%5]
		mode := coreModes[r.IntN(3)]
		got, warnings, err := c.exec(t, t.Context(), mode, s.ours, ask)
		require.NoError(t, err, "%s %s", mode, ask)
		which := []int{1}
		for _, i := range []int{0, 2} {
			gone := false
			for _, w := range warnings {
				var partial *fanout.PartialWarning
				gone = gone || errors.As(w, &partial) && partial.Upstream == fmt.Sprint("db", i)
			}
			if !gone {
				which = append(which, i)
			}
		}
		seen[len(which)]++
		require.Equal(t, s.stockOver(t, c, ask, which...), got, "%s, over %v", ask, which)
	}
	t.Logf("answers by the number of upstreams: %v", seen)
	for n := 1; n <= 3; n++ {
		require.Greater(t, seen[n], 10, "%d upstreams", n)
	}
}
