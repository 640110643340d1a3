package replicas

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// TestCutter: what a Prometheus had as one chunk is one, though it was fetched in half hours.
func TestCutter(t *testing.T) {
	for kind, histograms := range map[string]bool{"floats": false, "histograms": true} {
		t.Run(kind, func(t *testing.T) {
			for seed := range uint64(12) {
				r := rand.New(rand.NewPCG(seed, 5))
				o := tsdb.DefaultOptions()
				db, err := tsdb.Open(t.TempDir(), nil, nil, o, nil)
				require.NoError(t, err)
				const first, last = 10 * chunkRange, 12*chunkRange - 1
				app := db.AppenderV2(context.Background())
				interval := []int64{5000, 15_000, 30_000, 60_000}[r.IntN(4)]
				l, n := selectiontest.Name(0), int64(r.IntN(1000))
				for at := first + r.Int64N(interval); at <= last; at += interval + r.Int64N(7) {
					if r.IntN(200) == 0 {
						at += r.Int64N(900_000) // down
						continue
					}
					n += r.Int64N(200)
					if histograms {
						_, err = app.Append(0, l, 0, at, 0, tsdbutil.GenerateTestHistogram(n), nil, storage.AppendV2Options{})
					} else {
						_, err = app.Append(0, l, 0, at, float64(n)/float64(1+6*(seed%2)), nil, nil, storage.AppendV2Options{})
					}
					require.NoError(t, err)
				}
				require.NoError(t, app.Commit())
				fetch := func(b *selection.Builder, mint, maxt int64) (starts []int64) {
					q, err := db.ChunkQuerier(mint, maxt)
					require.NoError(t, err)
					defer q.Close()
					set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
					var it chunks.Iterator
					for set.Next() {
						it = set.At().Iterator(it)
						for it.Next() {
							m := it.At()
							starts = append(starts, m.MinTime)
							require.NoError(t, b.Chunk(m.Chunk.Encoding(), m.MinTime, m.MaxTime, m.Chunk.Bytes()))
						}
					}
					require.NoError(t, set.Err())
					return starts
				}
				want := fetch(selection.NewBuilder(0), first, last)
				b := selection.NewBuilder(0)
				b.Series(l)
				for from := int64(first); from < last; from += fetchEdge {
					fetch(b, from, from+fetchEdge-1)
				}
				require.NoError(t, db.Close())
				sel, err := b.Finish()
				require.NoError(t, err)
				require.Greater(t, sel.NumChunks(), len(want)-1)
				m := merger{maxt: math.MaxInt64}
				got, err := m.read(sel, 0)
				require.NoError(t, err)
				var starts []int64
				for _, c := range got {
					starts = append(starts, c[0].times[0])
				}
				require.Equal(t, want, starts, "seed %d", seed)
			}
		})
	}
}
