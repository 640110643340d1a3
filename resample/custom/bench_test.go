package custom

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
)

// cpuTime is the time in ns that the process has had cores.
func cpuTime(b *testing.B) float64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMake makes the states of runs of 20 and of 10 000 samples of each example, and of
// built-in aggregates with as large a state.
func BenchmarkMake(b *testing.B) {
	text, err := os.ReadFile("../../examples/aggregates.yml")
	require.NoError(b, err)
	var file struct{ Aggregates []Source }
	require.NoError(b, yaml.Unmarshal(text, &file))
	l, err := AddTo(aggregate.Library{}, file.Aggregates)
	require.NoError(b, err)
	const samples = 20_000
	in := aggregate.Runs{Grid: &bucket.Grid{}}
	for i := range samples {
		in.Times, in.Values = append(in.Times, int64(i)*15_000), append(in.Values, float64(i*i%171))
	}
	for _, length := range []int{20, 10_000} {
		in.Runs, in.Grid.Starts, in.Grid.Ends = nil, nil, nil
		for k := range samples / length {
			in.Runs = append(in.Runs, bucket.Run{Bucket: int32(k), First: int32(k * length), End: int32((k + 1) * length)})
			in.Grid.Starts, in.Grid.Ends = append(in.Grid.Starts, 0), append(in.Grid.Ends, 1)
		}
		for _, d := range l.All() {
			if d.Quantile || d.Reads&aggregate.Values != 0 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", d.Name, length), func(b *testing.B) {
				contents := aggregate.Contents{Parts: (d.Reads | aggregate.Count).With(), Own: d.Own}
				var states []aggregate.State
				var memory aggregate.Memory
				out := make([]float64, len(in.Runs))
				began := cpuTime(b)
				for b.Loop() {
					states = contents.Make(states, &in, &memory)
					d.Results(states, 0, out)
				}
				b.ReportMetric((cpuTime(b)-began)/float64(b.N)/samples, "cpu-ns/sample")
			})
		}
	}
}
