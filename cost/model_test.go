package cost

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// h200 is one H200 with 16 cores.
var h200 = Constants{
	Launch: time.Millisecond, Link: 50e9, DeviceSamples: 30e9, DeviceWindows: 20e9,
	CoreSamples: 100e6, CoreWindows: 200e6, Workers: 16,
}

// TestCheaper: small leaves stay on the cores, large ones go to the device.
func TestCheaper(t *testing.T) {
	slow := h200
	slow.Link = 100e6
	for name, c := range map[string]struct {
		c    Constants
		l    Leaf
		want Executor
	}{
		"nothing":                      {h200, Leaf{}, Cores},
		"one series":                   {h200, Leaf{Samples: 1000, Windows: 1000, Missing: 2000}, Cores},
		"a hundred series":             {h200, Leaf{Samples: 100_000, Windows: 50_000, Missing: 200_000}, Cores},
		"just below the crossover":     {h200, Leaf{Samples: 1_500_000, Missing: 3_000_000}, Cores},
		"just above it":                {h200, Leaf{Samples: 2_000_000, Missing: 4_000_000}, Device},
		"a billion samples":            {h200, Leaf{Samples: 1e9, Windows: 250e6, Missing: 2.2e9}, Device},
		"the same decoded":             {h200, Leaf{Samples: 1e9, Windows: 250e6, Missing: 2.2e9, Decoded: 1}, Device},
		"few, decoded":                 {h200, Leaf{Samples: 5_000_000, Missing: 10_000_000, Decoded: 1}, Cores},
		"results as large as samples":  {slow, Leaf{Samples: 100e6, Windows: 100e6, Results: 800e6}, Cores},
		"many windows":                 {h200, Leaf{Samples: 100_000, Windows: 100e6}, Device},
		"a slow link":                  {slow, Leaf{Samples: 100e6, Windows: 1e6, Missing: 200e6}, Cores},
		"a slow link and all is there": {slow, Leaf{Samples: 100e6, Windows: 1e6}, Device},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(c.c).Estimate(c.l)
			require.Equal(t, c.want, e.Cheaper(), "%v", e)
		})
	}
}

// TestMonotone: more of anything never makes an estimate smaller, whatever was
// learned, and once the device is worth its while more samples do not change that.
func TestMonotone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		c := Constants{
			Launch: time.Duration(r.Int64N(1e7)), Link: 1e6 + r.Float64()*1e11, DeviceSamples: 1e6 + r.Float64()*1e11,
			DeviceWindows: 1e6 + r.Float64()*1e11, CoreSamples: 1e6 + r.Float64()*1e9, CoreWindows: 1e6 + r.Float64()*1e9, Workers: 1 + r.IntN(64),
		}
		m := New(c)
		l := Leaf{Function: "rate", Samples: r.Int64N(1e9), Missing: r.Int64N(1e9), Windows: r.Int64N(1e9), Results: r.Int64N(1e9), Decoded: r.Float64()}
		for range r.IntN(20) {
			m.Observe(Executor(r.IntN(2)), l, time.Duration(r.Int64N(1e11)))
		}
		more, few := l, m.Estimate(l)
		for _, n := range []*int64{&more.Samples, &more.Missing, &more.Windows, &more.Results} {
			*n += r.Int64N(1e9)
			many := m.Estimate(more)
			for k := range few {
				require.GreaterOrEqual(t, many[k], few[k])
			}
			few = many
		}
	}
}

// TestLearning: estimates approach what happens, within bounds, for the function
// that it happened to, and what is not chosen is given another chance.
func TestLearning(t *testing.T) {
	m := New(h200)
	l := Leaf{Function: "rate", Samples: 10_000_000, Missing: 20_000_000, Windows: 1_000_000}
	first := m.Estimate(l)
	require.Equal(t, Device, first.Cheaper())
	for range 40 {
		m.Observe(Device, l, 3*first[Device])
	}
	require.InEpsilon(t, 3*first[Device], m.Estimate(l)[Device], 0.01)
	for range 100 {
		m.Observe(Device, l, time.Hour)
	}
	require.InEpsilon(t, furthest*first[Device], m.Estimate(l)[Device], 0.01)
	require.Equal(t, Cores, m.Estimate(l).Cheaper())
	other := l
	other.Function = "delta"
	require.Equal(t, first, m.Estimate(other))
	for range 500 {
		m.Observe(Cores, l, first[Cores])
	}
	require.InEpsilon(t, first[Device], m.Estimate(l)[Device], 0.05)
	m.Observe(Device, l, 0)
	require.Equal(t, Device, m.Estimate(l).Cheaper())
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "constants.json")
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	_, err := Read(path, "here", now)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, Write(path, "here", now, h200))
	got, err := Read(path, "here", now.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, h200, got)
	_, err = Read(path, "there", now)
	require.ErrorContains(t, err, "is of another machine: here")
	_, err = Read(path, "here", now.Add(31*24*time.Hour))
	require.ErrorContains(t, err, "was measured at 2026-11-21T12:00:00Z")
	_, err = Read(path, "here", now.Add(-2*time.Hour))
	require.ErrorContains(t, err, "was measured at")
	require.NoError(t, Write(path, "here", now, Constants{Link: 1}))
	_, err = Read(path, "here", now)
	require.ErrorContains(t, err, "rates that cannot be")
	for text, want := range map[string]string{
		"{}":                "has version 0 of the format, not 1",
		"{":                 "is no file of constants",
		`{"version": "no"}`: "is no file of constants",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err = Read(path, "here", now)
		require.ErrorContains(t, err, want)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing else is left behind")
	require.Error(t, Write(filepath.Join(path, "below a file"), "here", now, h200))
}
