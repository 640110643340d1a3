package leaf

import (
	"fmt"
	"math"
	"testing"

	"github.com/gogo/protobuf/proto"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/plan"
)

// sent is a stream that decodes what is sent, as a Querier does.
type sent struct {
	grpc.ServerStream
	series []prompb.TimeSeries
	sizes  []int
}

func (s *sent) SendMsg(v any) error {
	data, err := wire{}.Marshal(v)
	if err != nil {
		return err
	}
	defer data.Free()
	s.sizes = append(s.sizes, data.Len())
	var r leafpb.QueryResponse
	if err := proto.Unmarshal(data.Materialize(), &r); err != nil {
		return err
	}
	if one := r.GetTimeseries(); one != nil {
		s.series = append(s.series, *one)
	}
	s.series = append(s.series, r.GetTimeseriesBatch().GetSeries()...)
	return nil
}

// TestMessages: a Querier decodes what was encoded, to the last bit, series by series and in batches of
// bounded size.
func TestMessages(t *testing.T) {
	long := promql.Series{Metric: labels.FromStrings("of", "many")}
	for i := range int64(3 * mostBytes / 20) {
		long.Floats = append(long.Floats, promql.FPoint{T: i * 15000, F: float64(i)})
	}
	all := promql.Matrix{
		{Metric: labels.FromStrings("__name__", "a", "job", "b\xff\"é"), Floats: []promql.FPoint{
			{T: 0, F: 0}, {T: -1, F: math.Copysign(0, -1)}, {T: math.MaxInt64, F: math.Float64frombits(0x7ff8000000000002)},
			{T: math.MinInt64, F: math.Inf(-1)}, {T: 1_700_000_000_000, F: 1.5},
		}},
		{Metric: labels.EmptyLabels(), Floats: []promql.FPoint{{T: 1, F: 1}}, Histograms: []promql.HPoint{{T: 2, H: tsdbutil.GenerateTestFloatHistogram(3)}}},
		long, long, {Metric: labels.FromStrings("of", "few"), Floats: []promql.FPoint{{T: 1, F: 1}}},
	}
	for _, batch := range []int64{-1, 0, 1, 2, 64} {
		to := &sent{}
		s := &sender{stream: to, batch: batch}
		require.NoError(t, s.value(&promql.Result{Value: all}))
		require.NoError(t, s.flush())
		require.Len(t, to.series, len(all), batch)
		for i, got := range to.series {
			want := all[i]
			require.Equal(t, prompb.FromLabels(want.Metric, nil), got.Labels)
			require.Len(t, got.Samples, len(want.Floats))
			for k, p := range want.Floats {
				require.Equal(t, p.T, got.Samples[k].Timestamp)
				require.Equal(t, math.Float64bits(p.F), math.Float64bits(got.Samples[k].Value))
			}
			require.Len(t, got.Histograms, len(want.Histograms))
			for k, p := range want.Histograms {
				require.Equal(t, prompb.FromFloatHistogram(p.T, p.H), got.Histograms[k])
			}
		}
		if batch == 64 {
			require.Len(t, to.sizes, 3, "a message ends with the series that makes it large")
		}
	}
}

// BenchmarkRows encodes a result of 64 series at 1441 steps.
func BenchmarkRows(b *testing.B) {
	m := &plan.Matrix{Grid: plan.NewGrid(1_700_000_000_000, 1_700_086_400_000, 60_000)}
	for i := range 64 {
		values := make([]float64, m.Grid.Steps)
		for k := range values {
			values[k] = float64(i*k) / 7
		}
		m.Rows = append(m.Rows, plan.Row{
			Labels: labels.FromStrings("instance", fmt.Sprint("host-", i), "job", "api"), Values: values, Runs: []plan.Run{{Len: int32(len(values))}},
		})
	}
	b.SetBytes(int64(64 * m.Grid.Steps))
	for b.Loop() {
		s := &sender{stream: discarded{}, batch: 64}
		require.NoError(b, s.value(&promql.Result{Value: m}))
		require.NoError(b, s.flush())
	}
}

// discarded is a stream that encodes messages and drops them.
type discarded struct{ grpc.ServerStream }

func (discarded) SendMsg(v any) error {
	data, err := wire{}.Marshal(v)
	data.Free()
	return err
}
