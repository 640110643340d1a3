package cost

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crossover is what `gpubench -crossover` measured on an H200 and 16 cores.
const crossover = "../bench/results/2026-11-21-gpu-crossover-h200.json"

// bytesPerSample is how large the chunks of that are.
const bytesPerSample = 2.26

type point struct {
	Series, Samples, Windows int64
	Cores                    float64 `json:"cores_ms"`
	Missing                  float64 `json:"gpu_not_resident_ms"`
	Resident                 float64 `json:"gpu_resident_ms"`
}

// TestCrossover: constants found from four of the sizes, and from leaves of short series
// and of dense windows on the same machine, tell the times of all sizes within a
// factor of two, and who is done first.
func TestCrossover(t *testing.T) {
	b, err := os.ReadFile(crossover)
	require.NoError(t, err)
	var r struct{ Crossover struct{ Points []point } }
	require.NoError(t, json.Unmarshal(b, &r))
	points := r.Crossover.Points
	require.Len(t, points, 13)

	cores := func(p point) float64 { return p.Cores }
	resident := func(p point) float64 { return p.Resident }
	timed := func(k int, of func(point) float64) Timed {
		p := points[k]
		return Timed{p.Series, p.Samples, p.Windows, time.Duration(1e6 * of(p))}
	}
	dense := func(l Timed, perWindow float64) Timed {
		l.Took += time.Duration(3 * float64(l.Windows) * perWindow)
		l.Windows *= 4
		return l
	}
	short := func(took time.Duration) Timed { return Timed{128 << 10, 120 * 128 << 10, 128 << 10, took} }
	onCores := Measured{
		Least: Timed{Took: 20 * time.Microsecond}, Small: timed(3, cores),
		Busy: []Timed{timed(7, cores), timed(8, cores), dense(timed(7, cores), 2.6), short(100 * time.Millisecond)},
	}
	onDevice := Measured{
		Least: Timed{Took: 420 * time.Microsecond}, Small: timed(7, resident),
		Busy: []Timed{timed(8, resident), timed(9, resident), dense(timed(8, resident), 0.023), short(13 * time.Millisecond)},
	}
	m := New(Constants{Cores: onCores.Costs(), Device: onDevice.Costs(), Copy: 360 * time.Microsecond, Link: 54e9})
	t.Logf("%+v", m.Constants())
	within := func(p point, name string, estimate time.Duration, ms float64) {
		ratio := estimate.Seconds() / ms * 1000
		t.Logf("%d samples, %s: %.3f ms, %.2f of what it took", p.Samples, name, estimate.Seconds()*1000, ratio)
		require.Less(t, ratio, 2.0)
		require.Greater(t, ratio, 0.5)
	}
	for _, p := range points {
		l := Leaf{Series: p.Series, Samples: p.Samples, Windows: p.Windows}
		there := m.Estimate(l)
		l.Missing = int64(bytesPerSample * float64(p.Samples))
		missing := m.Estimate(l)
		within(p, "on the cores", there[Cores], p.Cores)
		within(p, "on a GPU that has the chunks", there[Device], p.Resident)
		within(p, "on a GPU", missing[Device], p.Missing)
		require.Equal(t, p.Cores < p.Resident, there.Cheaper() == Cores, "%d samples, resident", p.Samples)
		require.Equal(t, p.Cores < p.Missing, missing.Cheaper() == Cores, "%d samples", p.Samples)
	}
}
