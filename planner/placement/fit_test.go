package placement

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// measured are leaves like those that are measured, with what an executor of those
// costs takes for them, but for a factor of noise.
func measured(c Costs, noise func() float64) measurements {
	leaf := func(series, samples, windows int64) timed {
		took := c.estimate(float64(series), float64(samples), float64(windows)) * noise()
		return timed{series, samples, windows, time.Duration(1e9 * took)}
	}
	return measurements{
		Least: leaf(1, 2400, 600), Small: leaf(16, 16*2400, 16*600),
		Busy: []timed{
			leaf(1024, 1024*2400, 1024*600), leaf(4096, 4096*2400, 4096*600), leaf(1024, 1024*2400, 4*1024*600), leaf(20*1024, 1024*2400, 20*1024*30),
		},
	}
}

// TestFit: the costs of an executor come out of what it takes.
func TestFit(t *testing.T) {
	m := measured(h200.Cores, func() float64 { return 1 })
	c := m.fit()
	require.True(t, c.sound())
	require.InEpsilon(t, h200.Cores.Fixed, c.Fixed, 0.01)
	require.InEpsilon(t, h200.Cores.Series, c.Series, 0.01)
	require.InEpsilon(t, h200.Cores.Sample, c.Sample, 0.01)
	require.InEpsilon(t, h200.Cores.Window, c.Window, 0.01)
	require.InEpsilon(t, h200.Cores.Slow, c.Slow, 0.01)
	require.InEpsilon(t, h200.Cores.Ramp, c.Ramp, 0.01)
}

// TestFitNoise: whatever the noise, estimates can be made and are of the order of what
// was measured.
func TestFitNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		m := measured(h200.Cores, func() float64 { return 0.5 + 1.5*r.Float64() })
		c := m.fit()
		require.True(t, c.sound(), "%+v", c)
		for _, b := range m.Busy {
			ratio := c.estimate(float64(b.Series), float64(b.Samples), float64(b.Windows)) / b.Took.Seconds()
			require.Less(t, ratio, 3.0)
			require.Greater(t, ratio, 1/3.0)
		}
	}
	for _, m := range []measurements{{}, {Busy: []timed{{}, {1, 1, 1, 1}}}, measured(h200.Cores, func() float64 { return 0 })} {
		require.NotPanics(t, func() { m.fit() })
	}
}
