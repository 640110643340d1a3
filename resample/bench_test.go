package resample

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

var benchSeries = flag.Int("resample.series", 1000, "series of 10 000 samples in BenchmarkRun")

const (
	benchSamples = 10_000
	oneAggregate = "sum"
	eight        = "count,sum,mean,min,max,std,first,last"
)

// BenchmarkRun resamples series of 10 000 samples to five minutes. ns/sample is time of a core:
// that of the process, over all its cores, per sample.
func BenchmarkRun(b *testing.B) {
	sel, err := synthetic.Counters("m", *benchSeries, benchSamples)
	require.NoError(b, err)
	samples := float64(sel.NumSamples())
	examples := withExamples(b)
	examples.Aggregates, err = custom.AddTo(examples.Aggregates, []custom.Source{{
		Name: "total", State: map[string]string{"sum": "0"}, Add: map[string]string{"sum": "sum + v"}, Merge: map[string]string{"sum": "a.sum + b.sum"}, Result: "sum",
	}})
	require.NoError(b, err)
	measure := func(b *testing.B, f func()) {
		f() // what is made once is made
		began := cpuTime(b)
		for b.Loop() {
			f()
		}
		b.ReportMetric((cpuTime(b)-began)/float64(b.N)/samples, "cpu-ns/sample")
		b.ReportMetric(samples*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msamples/s")
	}
	b.Run("decode alone", func(b *testing.B) {
		var buf decode.Buffer
		measure(b, func() { decodeAll(b, sel, &buf) })
	})
	for _, c := range []struct{ name, aggregates, more string }{
		{"one", oneAggregate, ""}, {"eight", eight, ""}, {"eight, median and 95pct", eight + ",median,95pct", ""},
		{"one by job", oneAggregate, "&by=job"}, {"eight by job", eight, "&by=job"}, {"median by job", "median", "&by=job"},
		{"std", "std", ""}, {"custom sum", "total", ""}, {"custom rms", "rms", ""}, {"custom ema", "ema", ""}, {"custom longest_above", "longest_above", ""},
		{"std by job", "std", "&by=job"}, {"custom rms by job", "rms", "&by=job"}, {"custom ema by job", "ema", "&by=job"},
		{"eight of differences", "rate:count,rate:sum,rate:mean,rate:min,rate:max,rate:std,rate:first,rate:last", ""},
		{"eight, mean of series", eight, "&by=job&reaggregate=mean"},
	} {
		for _, workers := range []int{1, 0} {
			name := c.name
			if workers == 0 {
				name += ", all cores"
			}
			b.Run(name, func(b *testing.B) {
				r, err := Parse(form(fmt.Sprintf("metric=m&start=%d&end=%d&every=5m&aggregates=%s%s", synthetic.Start/1000, (synthetic.Start+benchSamples*synthetic.Interval)/1000, c.aggregates, c.more)), now, examples)
				require.NoError(b, err)
				p, err := NewPlan(r)
				require.NoError(b, err)
				e := New(Options{Workers: workers})
				measure(b, func() {
					r, err := e.Run(b.Context(), stored{sel}, p)
					require.NoError(b, err)
					r.Release()
				})
			})
		}
	}
}

func decodeAll(b *testing.B, sel *selection.Selection, buf *decode.Buffer) {
	for i := range sel.NumSeries() {
		buf.Reset()
		_, err := buf.Read(sel, i, sel.Chunks(i), true)
		require.NoError(b, err)
	}
}

// cpuTime is the time in ns that the process has had cores.
func cpuTime(b *testing.B) float64 {
	var u unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &u))
	return float64(u.Nano())
}
