package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// targets is a day of target_info of the instances of counters, each of which has ten jobs.
func targets(b *testing.B) *selection.Selection {
	sb := selection.NewBuilder(0)
	for inst := range 133 {
		for job := range 10 {
			sb.Series(labels.FromStrings("__name__", "target_info", "instance", fmt.Sprintf("i-%04d", inst), "job", fmt.Sprint("job-", job), "version", fmt.Sprint("v", inst%7)))
			for c := range 48 {
				chk := chunkenc.NewXORChunk()
				app, err := chk.Appender()
				require.NoError(b, err)
				first := int64(c*120) * 15_000
				for i := range 120 {
					app.Append(0, first+int64(i)*15_000, 1)
				}
				require.NoError(b, sb.Chunk(chunkenc.EncXOR, first, first+119*15_000, chk.Bytes()))
			}
		}
	}
	s, err := sb.Finish()
	require.NoError(b, err)
	return s
}

// BenchmarkInfo runs queries with info over the day of counters.
func BenchmarkInfo(b *testing.B) {
	q := named{"http_requests_total": counters(), "target_info": targets(b)}
	for _, qs := range []string{
		"info(rate(http_requests_total[5m]))",
		`sum by (version) (info(rate(http_requests_total[5m]), {version=~".+"}))`,
		"info(sum by (job, instance) (rate(http_requests_total[5m])))",
	} {
		for name, e := range map[string]promql.QueryEngine{"promwarp": New(Options{Prometheus: plainOpts()}), "prometheus": promql.NewEngine(plainOpts())} {
			b.Run(name+"/"+qs, func(b *testing.B) {
				for b.Loop() {
					query, err := e.NewRangeQuery(context.Background(), q, nil, qs, time.UnixMilli(43_200_000), time.UnixMilli(86_400_000), time.Minute)
					require.NoError(b, err)
					require.NoError(b, query.Exec(context.Background()).Err)
					query.Close()
				}
			})
		}
	}
}
