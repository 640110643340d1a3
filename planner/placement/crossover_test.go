package placement

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crossover is what `gpubench -crossover` measured on an H200 and 16 cores: the
// constants, and what sums of rates of ever more samples took.
const crossover = "../../bench/results/2026-11-21-gpu-crossover-h200.json"

// bytesPerSample is how large the chunks of that are.
const bytesPerSample = 2.26

// TestCrossover: the constants tell who is done first at every size where that matters,
// and how long it takes within a factor of 2.7, mostly of two.
func TestCrossover(t *testing.T) {
	b, err := os.ReadFile(crossover)
	require.NoError(t, err)
	var r struct {
		Crossover struct {
			Constants Constants
			Points    []struct {
				Series, Samples, Windows int64
				Cores                    float64 `json:"cores_ms"`
				Missing                  float64 `json:"gpu_not_resident_ms"`
				Resident                 float64 `json:"gpu_resident_ms"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(b, &r))
	require.True(t, r.Crossover.Constants.sound())
	require.Len(t, r.Crossover.Points, 13)
	m := newModel(r.Crossover.Constants)
	worst, far := 1.0, map[int64]bool{}
	for _, p := range r.Crossover.Points {
		l := Size{Series: p.Series, Samples: p.Samples, Windows: p.Windows}
		there := m.estimate(l)
		l.Missing = int64(bytesPerSample * float64(p.Samples))
		missing := m.estimate(l)
		for gpu, e := range map[float64]Estimate{p.Resident: there, p.Missing: missing} {
			if math.Abs(math.Log(p.Cores/gpu)) > math.Log(1.3) {
				require.Equal(t, p.Cores < gpu, e.cheaper() == Cores, "%d samples, %g ms on the GPU", p.Samples, gpu)
			}
		}
		for _, one := range []struct {
			estimate time.Duration
			ms       float64
		}{{there[Cores], p.Cores}, {there[Device], p.Resident}, {missing[Device], p.Missing}} {
			times := math.Exp(math.Abs(math.Log(one.estimate.Seconds() * 1000 / one.ms)))
			worst = max(worst, times)
			if times > 2 {
				far[p.Samples] = true
			}
		}
	}
	require.Less(t, worst, 2.7)
	require.LessOrEqual(t, len(far), 2)
}
