package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// TestLabelFunctions: functions of labels, and those that sort, answer as
// Prometheus does, and executors evaluate all of those that leave series apart.
func TestLabelFunctions(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(1, 2)))
	for _, delayed := range []bool{false, true} {
		opts := plainOpts()
		opts.EnableDelayedNameRemoval = delayed
		ours := New(Options{Prometheus: opts})
		opts.Reg = nil
		stock := promql.NewEngine(opts)
		for qs, onCPU := range map[string]bool{
			`label_replace(temp, "x", "$1", "job", "j(.)")`:                                    true,
			`label_replace(temp, "x", "$1", "job", "j(")`:                                      false, // no regular expression
			`label_replace(temp, "", "$1", "job", "j")`:                                        false, // no label name
			`label_replace(temp, "job", "", "job", ".*")`:                                      false, // series become the same
			`label_replace(build_info, "version", "", "version", ".*")`:                        false, // one after the other
			`label_replace(temp, "__name__", "x", "job", "j0")`:                                true,
			`label_replace(rate(reqs_total[5m]), "__name__", "x", "job", "j0")`:                !delayed,
			`-label_replace(rate(reqs_total[5m]), "__name__", "x", "job", ".*")`:               !delayed,
			`label_join(rate(reqs_total[5m]), "__name__", "_", "__name__", "job")`:             true,
			`label_join({__name__=~"temp|odd"}, "__type__", "_", "__name__", "job")`:           true,
			`sum by (x) (label_replace(sum by (job) (temp), "x", "$1", "job", "j(.)"))`:        true,
			`sum by (x) (label_replace(-temp > 0, "x", "$1", "job", "j(.)") * 2)`:              true,
			`sum by (x) (label_replace(temp * on (job, instance) odd, "x", "y", "job", ".*"))`: true,
			`topk(3, label_join(label_replace(temp, "x", "$0", "job", ".*"), "y", "", "x"))`:   true,
			`absent(label_replace(nope{a="b"}, "x", "y", "", ""))`:                             true,
			`last_over_time(label_join(rate(reqs_total[5m]), "__type__", "_", "job")[10m:1m])`: delayed,
			`first_over_time((label_join(temp, "__unit__", "_", "job") or odd)[10m:1m])`:       delayed,
			`max_over_time(label_join(temp, "__unit__", "_", "job")[10m:1m])`:                  true,
			`sort(label_replace(temp, "x", "y", "", ""))`:                                      true,
			`sum(sort_desc(temp) > 1)`:                                                         true,
			`sort_by_label(temp @ 1000, "instance", "job")`:                                    true,
		} {
			want, got := ranged(t, stock, t.Context(), st, qs), ranged(t, ours, t.Context(), st, qs)
			require.Equal(t, summary(want, qs), summary(got, qs), qs)
			if want.Err != nil {
				require.False(t, onCPU, qs)
				continue
			}
			x, err := ours.Explain(t.Context(), st, nil, qs, time.Unix(600, 0), time.Unix(3000, 0), time.Minute, true)
			require.NoError(t, err, qs)
			left := false
			x.Root.Walk(func(d *plan.Decision) { left = left || (d.Own && d.Executor == plan.OnPrometheus) })
			require.Equal(t, onCPU, !left, qs)
		}
	}
}
