package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"
)

// The data of the matrix of settings: samples 15 s apart over two hours, with gaps, stale
// markers and counter resets. Some series have labels of their own that are external
// labels of some cells.

const (
	matrixHours  = 2
	matrixScrape = 15 * time.Second
)

// matrixStorage is how the data of a cell is stored.
type matrixStorage struct {
	startTimestamps bool // with start timestamps, in XOR2 chunks
	histograms      bool // native ones beside the floats
}

func (s matrixStorage) String() string {
	text := "XOR"
	if s.startTimestamps {
		text = "XOR2"
	}
	if s.histograms {
		return text + ", native histograms"
	}
	return text + ", floats"
}

// features are those that a Prometheus needs to keep such data.
func (s matrixStorage) features() []string {
	if s.startTimestamps {
		return []string{"xor2-encoding", "st-storage", "histograms-st-encoding"}
	}
	return nil
}

// matrixSeries is one series and how its samples come about.
type matrixSeries struct {
	labels labels.Labels
	next   func(r *rand.Rand, last float64) float64
	native bool
}

func counting(r *rand.Rand, last float64) float64 {
	if r.IntN(90) == 0 {
		return float64(r.IntN(5)) // a reset
	}
	return last + float64(r.IntN(20))
}

func wandering(r *rand.Rand, last float64) float64 { return last + math.Round(r.NormFloat64()*100)/16 }

// matrixSeriesList returns the series in label order: a Prometheus yields those of its
// head in the order of their creation, and sums depend on it in their last bits.
func matrixSeriesList(histograms bool) (all []matrixSeries) {
	add := func(next func(*rand.Rand, float64) float64, native bool, pairs ...string) {
		all = append(all, matrixSeries{labels.FromStrings(pairs...), next, native})
	}
	for _, job := range []string{"api", "db"} {
		for instance := range 3 {
			i := fmt.Sprintf("host-%d:80", instance)
			for _, code := range []string{"200", "404", "500"} {
				add(counting, false, model.MetricNameLabel, "requests_total", "job", job, "instance", i, "code", code)
			}
			add(wandering, false, model.MetricNameLabel, "memory_bytes", "job", job, "instance", i)
			add(wandering, false, model.MetricNameLabel, "load", "job", job, "instance", i, "cluster", []string{"eu", "us", "ap"}[instance])
			add(counting, false, model.MetricNameLabel, "room_events_total", "job", job, "instance", i, "room", fmt.Sprint(4+instance))
			add(func(*rand.Rand, float64) float64 { return 1 }, false, model.MetricNameLabel, "target_info", "job", job, "instance", i, "version", fmt.Sprint("v", instance), "room", "9")
			for _, le := range []string{"0.1", "1", "+Inf"} {
				add(counting, false, model.MetricNameLabel, "latency_seconds_bucket", "job", job, "instance", i, "le", le)
			}
			if histograms {
				add(nil, true, model.MetricNameLabel, "native_seconds", "job", job, "instance", i)
			}
		}
		add(counting, false, model.MetricNameLabel, "room_events_total", "job", job, "instance", "none")
		add(wandering, false, model.MetricNameLabel, "typed", "job", job, "__type__", "gauge", "__unit__", "seconds")
	}
	slices.SortFunc(all, func(a, b matrixSeries) int { return labels.Compare(a.labels, b.labels) })
	return all
}

// writeMatrixData writes the data that ends at end into a new data directory.
func writeMatrixData(t *testing.T, s matrixStorage, end time.Time) (dir string) {
	t.Helper()
	dir = t.TempDir()
	o := tsdb.DefaultOptions()
	o.RetentionDuration = (10 * 365 * 24 * time.Hour).Milliseconds()
	if s.startTimestamps {
		o.EnableSTStorage, o.EnableHistogramSTEncoding, o.FloatChunkEncoding = true, true, chunkenc.EncXOR2
	}
	db, err := tsdb.Open(dir, nil, nil, o, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()

	r := rand.New(rand.NewPCG(7, 9))
	series := matrixSeriesList(s.histograms)
	last := make([]float64, len(series))
	since := make([]int64, len(series)) // start timestamps
	gap := make([]int, len(series))
	first := end.Add(-matrixHours * time.Hour)
	for i := range since {
		since[i] = first.UnixMilli() - int64(r.IntN(60_000)) - 1
		last[i] = float64(r.IntN(1000))
	}
	for at := first; !at.After(end); at = at.Add(matrixScrape) {
		app := db.AppenderV2(context.Background())
		for i := range series {
			m, ms := &series[i], at.UnixMilli()+int64(i%7) // of one target not at one time
			v, stale := 0.0, false
			switch {
			case gap[i] > 0:
				gap[i]--
				continue
			case r.IntN(150) == 0:
				gap[i], stale = r.IntN(40), true
				v = math.Float64frombits(value.StaleNaN)
			case !m.native:
				if v = m.next(r, last[i]); v < last[i] {
					since[i] = ms - 1 - int64(r.IntN(10_000))
				}
				last[i] = v
			}
			st := since[i]
			if !s.startTimestamps {
				st = 0
			}
			var h *histogram.Histogram
			if m.native && !stale {
				last[i]++
				h = tsdbutil.GenerateTestHistogram(int64(last[i]))
			}
			_, err := app.Append(0, m.labels, st, ms, v, h, nil, storage.AppendV2Options{})
			require.NoError(t, err)
		}
		require.NoError(t, app.Commit())
	}
	return dir
}
