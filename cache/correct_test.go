package cache

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// written is an upstream's answer: n series with a sample a minute from mint to maxt, of the given
// values, in chunks of so many samples.
func written(t *testing.T, n int, mint, maxt int64, perChunk int, value func(series int, at int64) float64) *selection.Selection {
	b := selection.NewBuilder(0)
	for i := range n {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
		for from := mint; from <= maxt; from += int64(perChunk) * minute {
			c := chunkenc.NewXORChunk()
			app, err := c.Appender()
			require.NoError(t, err)
			last := min(from+int64(perChunk-1)*minute, maxt)
			for at := from; at <= last; at += minute {
				app.Append(0, at, value(i, at))
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, from, last/minute*minute, c.Bytes()))
		}
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// TestCorrect: what an upstream has changed, or gave wrongly for a while, is counted when it is
// fetched again, and said in the log with a series, a time and both values.
func TestCorrect(t *testing.T) {
	right := func(series int, at int64) float64 { return float64(series*1000) + float64(at/minute) }
	for _, test := range []struct {
		name     string
		n        int // series of the first answer
		perChunk int
		value    func(series int, at int64) float64
		counted  int64
		says     string
	}{
		{"nothing has changed", 3, 30, right, 0, ""},
		{"the same samples in other chunks", 3, 17, right, 0, ""},
		{"values of one series were wrong", 3, 30, func(i int, at int64) float64 {
			if i == 1 && at == 81*hour {
				return -7
			}
			return right(i, at)
		}, 1, `{__name__=\"m\", i=\"1\"} at 1970-01-04T09:00:00Z: it was -7 and is 5860`},
		{"all values were wrong", 3, 30, func(int, int64) float64 { return 1 }, 3, `i=\"0\"} at 1970-01-04T08:00:00Z: it was 1 and is 4800`},
		{"there was no last series", 2, 30, right, 1, `i=\"2\"} at 1970-01-04T08:00:00Z: it was nothing and is 6800`},
		{"there was a series too many", 4, 30, right, 1, `i=\"3\"} at 1970-01-04T08:00:00Z: it was 7800 and is nothing`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log lines
			first := true
			up := &fake{fetch: func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
				if first {
					return written(t, test.n, mint, maxt, test.perChunk, test.value), nil, nil
				}
				return written(t, 3, mint, maxt, 30, right), nil, nil
			}}
			c, clock := clocked(t, up, Options{MaxAge: 6 * time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			query(t, c, 80*hour, 84*hour-1, "m")
			first = false
			*clock += hour
			query(t, c, 80*hour, 86*hour-1, "m") // of which a part is new
			landed(t, c)
			require.Zero(t, c.metrics.corrected.value())
			*clock += 6 * hour
			got := query(t, c, 80*hour, 84*hour-1, "m")
			landed(t, c)
			require.Len(t, got, 3)
			require.Equal(t, test.counted, c.metrics.corrected.value())
			require.Equal(t, int(min(test.counted, 1)), log.count("other samples"))
			require.Equal(t, int(min(test.counted, 1)), log.count(test.says)*int(min(test.counted, 1)), &log.buf)
			*clock += 7 * hour
			query(t, c, 80*hour, 84*hour-1, "m")
			landed(t, c)
			require.Equal(t, test.counted, c.metrics.corrected.value(), "once")
		})
	}
}
