package resample

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
)

// TestWholeRows: rows that have all buckets share one list of them, whoever has made them, and its
// memory counts once; the rows of a series that has gaps share another.
func TestWholeRows(t *testing.T) {
	at := func(i string, ts ...int64) samples {
		return samples{labels.FromStrings("__name__", "m", "i", i, "job", "a"+i[:1]), ts, make([]float64, len(ts))}
	}
	st := store(t, []samples{at("0", 0, 60_000, 120_000), at("1", 0, 120_000), at("2", 1000, 61_000, 121_000)})
	for more, told := range map[string]int64{"": 2, "&by=job": 2, "&fill=null": 0, "&fill=prev&by=job": 0} {
		pool := memory.New(memory.Options{Limit: 1 << 30})
		p, err := planned(form("metric=m&start=0&end=180&every=1m&aggregates=count,max" + more))
		require.NoError(t, err)
		r, err := New(Options{Memory: pool}).Run(t.Context(), st, p)
		require.NoError(t, err)
		require.Len(t, r.Series, 3)
		whole, gaps := r.Series[0].Rows, r.Series[1].Rows
		require.Equal(t, []int32{0, 1, 2}, whole[0].Buckets)
		require.Same(t, &whole[0].Buckets[0], &r.Series[2].Rows[1].Buckets[0], more)
		require.Same(t, &gaps[0].Buckets[0], &gaps[1].Buckets[0], more)
		require.Equal(t, told == 0, &whole[0].Buckets[0] == &gaps[0].Buckets[0], more)
		require.Equal(t, p.bytes()+3*seriesBytes+6*rowBytes(0)+8*r.Values()+4*told, r.bytes(), more)
		require.NotZero(t, pool.Used())
		r.Release()
		require.Zero(t, pool.Used(), more)
	}
}
