package serve

import (
	"math"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

// A Sample has the bytes that Prometheus's encoder gives it, whatever its time.
func TestAppendSample(t *testing.T) {
	r := seeded(t)
	for range 100_000 {
		s := prompb.Sample{Timestamp: int64(r.Uint64() >> r.IntN(65)), Value: someFloat(r, r.IntN(9) == 0)}
		if math.Float64bits(s.Value) == 1<<63 {
			continue // Prometheus writes -0 as 0
		}
		want, err := (&prompb.TimeSeries{Samples: []prompb.Sample{s}}).Marshal()
		require.NoError(t, err)
		require.Equal(t, want, appendSample(nil, s.Timestamp, s.Value), "%v", s)
	}
}

// A result of many groups is in the order of the series, and what is beyond the limit is refused
// wherever it is found.
func TestManyGroups(t *testing.T) {
	m := &inMemory{sel: random(t, seeded(t), 3*groupSeries)}
	queries := []*prompb.Query{query(0, latest), query(500, 7000)}
	chunks := &prompb.ReadRequest{Queries: queries, AcceptedResponseTypes: streamed}
	want := chunkAnswer(t, ask(t, newHandler(t, m), chunks, asking(XOR)).Body, [][2]int64{{0, latest}, {500, 7000}})
	req := &prompb.ReadRequest{Queries: queries, AcceptedResponseTypes: sampled}
	for q, got := range sampleAnswer(t, ask(t, newHandler(t, m), req).Body, 2) {
		require.Equal(t, len(want[q]), len(got))
		for i := range got {
			require.Equal(t, want[q][i].labels, got[i].labels)
			require.Equal(t, len(want[q][i].samples), len(got[i].samples), got[i].labels)
			for k, s := range got[i].samples {
				require.Equal(t, want[q][i].samples[k].bits, s.bits)
				require.Equal(t, want[q][i].samples[k].t, s.t)
			}
		}
	}

	samples := 0
	for _, one := range want[0] {
		samples += len(one.samples)
	}
	for limit, code := range map[int]int{samples: 200, samples - 1: 400} {
		h := newHandler(t, m, func(o *Options) { o.SampleLimit = limit })
		require.Equal(t, code, ask(t, h, req).Code, limit)
	}
}
