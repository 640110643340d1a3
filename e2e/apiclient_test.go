package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/stretchr/testify/require"
)

// Every call of Prometheus's own client library gives with promwarp what it gives with
// the Prometheus behind it: the same values, the same warnings, the same errors.
func TestClientLibrary(t *testing.T) {
	b := busy(t)
	connect := func(url string) promapi.API {
		c, err := api.NewClient(api.Config{Address: url})
		require.NoError(t, err)
		return promapi.NewAPI(c)
	}
	theirs, ours := connect(b.url), connect(b.promwarp.url)
	start, end := b.grid.start, b.grid.end
	r := promapi.Range{Start: start, End: end, Step: 90 * time.Second}
	type call func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error)
	plain := func(v any, err error) (any, promapi.Warnings, error) { return v, nil, err }
	only := func(err error) (any, promapi.Warnings, error) { return nil, nil, err }
	query := func(q string, opts ...promapi.Option) call {
		return func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			v, w, err := c.Query(ctx, q, end, opts...)
			return v, w, err
		}
	}
	queryRange := func(q string, opts ...promapi.Option) call {
		return func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			v, w, err := c.QueryRange(ctx, q, r, opts...)
			return v, w, err
		}
	}
	for name, c := range map[string]struct {
		call call
		// fails says that it is an error, and why promwarp's has words of its own.
		fails, words string
		// own says why the answer is promwarp's own.
		own string
		// warns says that there is a warning.
		warns bool
	}{
		"query":                           {call: query(`sum by (job) (rate(http_requests_total[5m]))`)},
		"query of a scalar":               {call: query(`1 + 1`)},
		"query of a matrix":               {call: query(`up[5m]`)},
		"query with a timeout":            {call: query(`sum(up)`, promapi.WithTimeout(time.Minute))},
		"query with a lookback":           {call: query(`up`, promapi.WithLookbackDelta(time.Millisecond))},
		"query with a longer lookback":    {call: query(`up offset -20m`, promapi.WithLookbackDelta(time.Hour))},
		"query with statistics":           {call: query(`sum(up)`, promapi.WithStats(promapi.AllStatsValue))},
		"query with a limit":              {call: query(`up`, promapi.WithLimit(3)), warns: true},
		"query with all options":          {call: query(`up`, promapi.WithLimit(1), promapi.WithTimeout(time.Minute), promapi.WithLookbackDelta(time.Minute), promapi.WithStats(promapi.AllStatsValue)), warns: true},
		"query that notes something":      {call: query(`rate(node_memory_bytes[5m])`)},
		"query that warns":                {call: query(`quantile(2, up)`), warns: true},
		"query that does not parse":       {call: query(`sum(`), fails: "bad_data"},
		"query that matches several":      {call: query(`up * on (job) up`), fails: "execution"},
		"range":                           {call: queryRange(`sum by (job) (rate(http_requests_total[5m]))`)},
		"range with all options":          {call: queryRange(`up`, promapi.WithLimit(1), promapi.WithTimeout(time.Minute), promapi.WithLookbackDelta(time.Minute), promapi.WithStats(promapi.AllStatsValue)), warns: true},
		"range that is of the wrong type": {call: queryRange(`up[5m]`), fails: "bad_data"},
		"series": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			v, w, err := c.Series(ctx, []string{"up", `{__name__=~"http_.*_total"}`}, start, end)
			return v, w, err
		}},
		"series with a limit": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			v, w, err := c.Series(ctx, []string{"up"}, start, end, promapi.WithLimit(2))
			return v, w, err
		}, warns: true},
		"series of nothing": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			v, w, err := c.Series(ctx, nil, start, end)
			return v, w, err
		}, fails: "bad_data"},
		"label names": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			v, w, err := c.LabelNames(ctx, nil, start, end)
			return v, w, err
		}},
		"label names of some": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			v, w, err := c.LabelNames(ctx, []string{"up"}, start, end, promapi.WithLimit(1))
			return v, w, err
		}, warns: true},
		"label values": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			v, w, err := c.LabelValues(ctx, "job", nil, time.Time{}, time.Time{})
			return v, w, err
		}},
		"label values of some": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			v, w, err := c.LabelValues(ctx, "__name__", []string{`{job="shop"}`}, start, time.Now(), promapi.WithLimit(100))
			return v, w, err
		}},
		"exemplars": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.QueryExemplars(ctx, "shop_orders_total", time.Unix(1_600_000_000, 0), end))
		}},
		"targets": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) { return plain(c.Targets(ctx)) }},
		"targets metadata": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.TargetsMetadata(ctx, `{job="shop"}`, "shop_wait_seconds", "1"))
		}},
		"metadata": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.Metadata(ctx, "shop_wait_seconds", "1"))
		}},
		"rules": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.Rules(ctx, nil))
		}},
		"some rules": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.Rules(ctx, []string{`{severity="page"}`}))
		}},
		"alerts": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) { return plain(c.Alerts(ctx)) }},
		"alertmanagers": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.AlertManagers(ctx))
		}},
		"TSDB": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.TSDB(ctx, promapi.WithLimit(3)))
		}},
		"TSDB blocks": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.TSDBBlocks(ctx))
		}},
		"WAL replay": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.WalReplay(ctx))
		}},
		"format query": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.FormatQuery(ctx, "sum(up)by(job)"))
		}},
		"format nonsense": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.FormatQuery(ctx, "sum("))
		}, fails: "bad_data"},
		"config": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) { return plain(c.Config(ctx)) }, own: "it is promwarp's configuration"},
		"flags":  {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) { return plain(c.Flags(ctx)) }, own: "they are promwarp's flags"},
		"build": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.Buildinfo(ctx))
		}, own: "it is promwarp's build"},
		"runtime": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.Runtimeinfo(ctx))
		}, own: "it is about promwarp's process"},
		"snapshot": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return plain(c.Snapshot(ctx, true))
		}, fails: "server_error", words: "promwarp has no admin API to switch on"},
		"delete series": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return only(c.DeleteSeries(ctx, []string{"up"}, start, end))
		}, fails: "server_error", words: "promwarp has no admin API to switch on"},
		"clean tombstones": {call: func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return only(c.CleanTombstones(ctx))
		}, fails: "server_error", words: "promwarp has no admin API to switch on"},
	} {
		t.Run(name, func(t *testing.T) {
			want, wantWarnings, wantErr := c.call(t.Context(), theirs)
			got, gotWarnings, gotErr := c.call(t.Context(), ours)
			require.ElementsMatch(t, wantWarnings, gotWarnings)
			require.Equal(t, c.warns, len(gotWarnings) > 0, "%q", gotWarnings)
			if c.fails != "" {
				var w, g *promapi.Error
				require.ErrorAs(t, wantErr, &w)
				require.ErrorAs(t, gotErr, &g)
				require.Equal(t, w.Type, g.Type)
				require.ErrorContains(t, gotErr, c.fails)
				if c.words == "" {
					require.Equal(t, w, g)
				}
				return
			}
			require.NoError(t, wantErr)
			require.NoError(t, gotErr)
			if c.own != "" {
				require.NotEqual(t, settled(t, want), settled(t, got), c.own)
				return
			}
			require.Equal(t, settled(t, want), settled(t, got))
		})
	}
}
