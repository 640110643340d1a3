package placement

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan/offload"

	"github.com/promwarp/promwarp/selection"
)

// h200 is one H200 with 16 cores.
var h200 = Constants{
	Cores:  Costs{Fixed: 20 * time.Microsecond, Series: 500, Sample: 2, Window: 2.6, Slow: 4, Ramp: 1200 * time.Microsecond},
	Device: Costs{Fixed: 420 * time.Microsecond, Series: 90, Sample: 0.02, Window: 0.02, Slow: 6, Ramp: 1300 * time.Microsecond},
	Copy:   360 * time.Microsecond, Link: 50e9,
}

// TestCheaper: small leaves stay on the cores, large ones go to the device.
func TestCheaper(t *testing.T) {
	slow := h200
	slow.Link = 100e6
	for name, c := range map[string]struct {
		c    Constants
		l    offload.Size
		want Executor
	}{
		"nothing":                      {h200, offload.Size{}, Cores},
		"one series":                   {h200, offload.Size{Series: 1, Samples: 1000, Windows: 1000, Missing: 2000}, Cores},
		"ten series":                   {h200, offload.Size{Series: 10, Samples: 10_000, Windows: 5_000, Missing: 20_000}, Cores},
		"just below the crossover":     {h200, offload.Size{Series: 60, Samples: 60_000, Windows: 15_000, Missing: 120_000}, Cores},
		"just above it":                {h200, offload.Size{Series: 100, Samples: 100_000, Windows: 25_000, Missing: 200_000}, Device},
		"resident, a third of that":    {h200, offload.Size{Series: 40, Samples: 40_000, Windows: 10_000}, Device},
		"a billion samples":            {h200, offload.Size{Series: 100_000, Samples: 1e9, Windows: 250e6, Missing: 2.2e9}, Device},
		"the same decoded":             {h200, offload.Size{Series: 100_000, Samples: 1e9, Windows: 250e6, Missing: 2.2e9, Decoded: 1}, Device},
		"few, decoded":                 {h200, offload.Size{Samples: 500_000, Missing: 1_000_000, Decoded: 1}, Cores},
		"results as large as samples":  {slow, offload.Size{Samples: 100e6, Windows: 100e6, Results: 800e6}, Cores},
		"many windows":                 {h200, offload.Size{Samples: 10_000, Windows: 1e6}, Device},
		"many series":                  {h200, offload.Size{Series: 10_000, Samples: 10_000}, Device},
		"a slow link":                  {slow, offload.Size{Samples: 100e6, Windows: 1e6, Missing: 200e6}, Cores},
		"a slow link and all is there": {slow, offload.Size{Samples: 100e6, Windows: 1e6}, Device},
	} {
		t.Run(name, func(t *testing.T) {
			e := newModel(c.c).estimate(c.l)
			require.Equal(t, c.want, e.cheaper(), "%v", e)
		})
	}
}

// TestMonotone: more of anything never makes an estimate smaller, whatever was
// learned.
func TestMonotone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		costs := func() Costs {
			return Costs{
				Fixed: time.Duration(r.Int64N(1e7)), Series: 1e4 * r.Float64(), Sample: 100 * r.Float64(), Window: 100 * r.Float64(),
				Slow: 1 + 20*r.Float64(), Ramp: time.Duration(r.Int64N(1e7)),
			}
		}
		c := Constants{Cores: costs(), Device: costs(), Copy: time.Duration(r.Int64N(1e7)), Link: 1e6 + r.Float64()*1e11}
		m := newModel(c)
		l := offload.Size{Function: "rate", Series: r.Int64N(1e6), Samples: r.Int64N(1e9), Missing: r.Int64N(1e9), Windows: r.Int64N(1e9), Results: r.Int64N(1e9), Decoded: r.Float64()}
		for range r.IntN(20) {
			m.observe(Executor(r.IntN(2)), l, time.Duration(r.Int64N(1e11)))
		}
		more, few := l, m.estimate(l)
		for _, n := range []*int64{&more.Series, &more.Samples, &more.Missing, &more.Windows, &more.Results} {
			*n += r.Int64N(1e9)
			many := m.estimate(more)
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
	m := newModel(h200)
	l := offload.Size{Function: "rate", Samples: 10_000_000, Missing: 20_000_000, Windows: 1_000_000}
	first := m.estimate(l)
	require.Equal(t, Device, first.cheaper())
	for range 40 {
		m.observe(Device, l, 3*first[Device])
	}
	require.InEpsilon(t, 3*first[Device], m.estimate(l)[Device], 0.01)
	for range 100 {
		m.observe(Device, l, time.Hour)
	}
	require.InEpsilon(t, furthest*first[Device], m.estimate(l)[Device], 0.01)
	require.Equal(t, Cores, m.estimate(l).cheaper())
	other := l
	other.Function = "delta"
	require.Equal(t, first, m.estimate(other))
	for range 500 {
		m.observe(Cores, l, first[Cores])
	}
	require.InEpsilon(t, first[Device], m.estimate(l)[Device], 0.05)
	m.observe(Device, l, 0)
	require.Equal(t, Device, m.estimate(l).cheaper())
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "constants.json")
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	_, err := read(path, "here", now)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, write(path, "here", now, h200))
	got, err := read(path, "here", now.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, h200, got)
	_, err = read(path, "there", now)
	require.ErrorContains(t, err, "is of another machine: here")
	_, err = read(path, "here", now.Add(31*24*time.Hour))
	require.ErrorContains(t, err, "was measured at 2026-11-21T12:00:00Z")
	_, err = read(path, "here", now.Add(-2*time.Hour))
	require.ErrorContains(t, err, "was measured at")
	require.NoError(t, write(path, "here", now, Constants{Link: 1}))
	_, err = read(path, "here", now)
	require.ErrorContains(t, err, "times that cannot be")
	for text, want := range map[string]string{
		"{}":                "has version 0 of the format, not 4",
		"{":                 "is no file of constants",
		`{"version": "no"}`: "is no file of constants",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err = read(path, "here", now)
		require.ErrorContains(t, err, want)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing else is left behind")
	require.Error(t, write(filepath.Join(path, "below a file"), "here", now, h200))
}

// The time that the cores and a GPU are expected to take for a sum of rates over ever more
// series, each of a day's 5760 samples at 1440 steps, whose chunks are not on the GPU.
func ExampleConstants_Estimate() {
	measured := Constants{
		Cores:  Costs{Fixed: 20 * time.Microsecond, Series: 500, Sample: 2, Window: 2.6, Slow: 4, Ramp: 1200 * time.Microsecond},
		Device: Costs{Fixed: 420 * time.Microsecond, Series: 90, Sample: 0.02, Window: 0.02, Slow: 6, Ramp: 1300 * time.Microsecond},
		Copy:   360 * time.Microsecond, Link: 50e9,
	}
	for _, series := range []int64{1, 10, 100, 1000} {
		e := measured.Estimate(offload.Size{Series: series, Samples: 5760 * series, Windows: 1440 * series, Missing: 2 * 5760 * series})
		fmt.Printf("%4d series: cores %7v, GPU %7v\n", series, e[Cores].Round(time.Microsecond), e[Device].Round(time.Microsecond))
	}
	// Output:
	//    1 series: cores    83µs, GPU   782µs
	//   10 series: cores   651µs, GPU   796µs
	//  100 series: cores 2.796ms, GPU   943µs
	// 1000 series: cores 16.984ms, GPU 2.414ms
}

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
		l := offload.Size{Series: p.Series, Samples: p.Samples, Windows: p.Windows}
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

// work is a query of the simulation.
type work struct {
	cores time.Duration // its leaf on all cores, alone
	host  time.Duration // of one core, for its leaf on a GPU, which is kept waiting meanwhile
	gpu   time.Duration // its leaf on a GPU, alone
	serve time.Duration // of one core, for what is around the leaf
}

// dashboard is sixteen queries as 16 cores and an H200 take them, of so many times the samples.
func dashboard(times float64) (all []work) {
	for i, ms := range []float64{7, 10, 5, 3, 10, 6, 4, 6, 11, 3, 7, 2, 5, 5, 6, 1.5} {
		ms := func(fixed, more float64) time.Duration { return time.Duration((fixed + more*ms*times) * 1e6) }
		all = append(all, work{cores: ms(0, 1), host: ms(0.7, 0.1), gpu: ms(0.4, 0.15), serve: ms(1+float64(i%5)*times, 1)})
	}
	return all
}

// simulation is a machine of so many cores, which goroutines share evenly, and a GPU that computes
// two leaves at once, in the order of their arrival.
type simulation struct {
	gpu     // what is not simulated
	p       *Placer
	mode    string // auto, gpu or cpu
	work    []work
	now     time.Duration
	queue   []*client // for the GPU; the first two are computed
	typical time.Duration
}

const simulatedCores = 16

// client asks one query after the other.
type client struct {
	asked int
	work  work
	size  offload.Size
	began time.Duration // the leaf, once its turn has come
	stage stage
	left  float64 // of the stage, core-ns or GPU-ns
	done  func()
}

// stage is what a client's query is at.
type stage int

const (
	onCores stage = iota
	waiting       // for the GPU
	hosted
	onDevice
	served
)

// threads are the goroutines that a stage keeps busy.
var threads = map[stage]float64{onCores: simulatedCores, hosted: 1, served: 1}

func (s *simulation) ResidentShare(*selection.Selection) float64 { return 1 }

// Wait is that of device.Device.
func (s *simulation) Wait() time.Duration { return time.Duration(len(s.queue)) * s.typical / 2 }

// begin begins the next query of a client.
func (s *simulation) begin(c *client) {
	k := c.asked % len(s.work)
	c.work, c.began, c.done = s.work[k], s.now, s.p.Serve()
	c.asked += 7
	c.size = offload.Size{Function: fmt.Sprint(k), Samples: int64(c.work.cores), Windows: int64(c.work.host + c.work.gpu)}
	chosen := s.mode
	if e := s.p.estimate(&c.size, nil, s); chosen == "auto" && e.cheaper() == Cores {
		chosen = "cpu"
	}
	if chosen == "cpu" {
		c.stage, c.left = onCores, float64(c.work.cores)*simulatedCores
		return
	}
	c.stage = waiting
	s.queue = append(s.queue, c)
}

// next goes on with a client whose stage is done, and reports whether it was the last.
func (s *simulation) next(c *client) bool {
	took := s.now - c.began
	switch c.stage {
	case hosted:
		c.stage, c.left = onDevice, float64(c.work.gpu)
		return false
	case onDevice:
		s.queue = slices.DeleteFunc(s.queue, func(o *client) bool { return o == c })
		s.typical += (took - s.typical) / 8
		s.p.model.Load().observe(Device, c.size, took)
	case onCores:
		s.p.model.Load().observe(Cores, c.size, took)
	case served:
		c.done()
		return true
	}
	c.stage, c.left = served, float64(c.work.serve)
	return false
}

// run is how many queries a second so many clients have answered, of whom 20 are served at once.
func (s *simulation) run(clients int) float64 {
	const step, all = 20 * time.Microsecond, 6 * time.Second
	asking := make([]*client, min(clients, 20))
	for i := range asking {
		asking[i] = &client{asked: i * 5}
		s.begin(asking[i])
	}
	answers := 0
	for ; s.now < all; s.now += step {
		for _, c := range s.queue[:min(2, len(s.queue))] {
			if c.stage == waiting {
				c.stage, c.began, c.left = hosted, s.now, float64(c.work.host)
			}
		}
		var busy, computed float64
		for _, c := range asking {
			busy += threads[c.stage]
			if c.stage == onDevice {
				computed++
			}
		}
		share := min(1, simulatedCores/max(busy, 1)) * float64(step)
		for _, c := range asking {
			switch c.stage {
			case waiting:
				continue
			case onDevice:
				c.left -= float64(step) / computed
			default:
				c.left -= threads[c.stage] * share
			}
			if c.left <= 0 && s.next(c) {
				if s.now > all/3 {
					answers++
				}
				s.begin(c)
			}
		}
	}
	return float64(answers) / (all - all/3).Seconds()
}

// TestUnderLoad: of queries that are mixed, auto answers about as many as the better executor alone,
// however many clients there are.
func TestUnderLoad(t *testing.T) {
	for name, work := range map[string][]work{
		"a GPU is faster":     dashboard(1),
		"cores are faster":    dashboard(0.05),
		"some faster on each": append(dashboard(0.1), dashboard(1)...),
		"about as fast":       dashboard(0.25),
	} {
		for _, clients := range []int{1, 4, 16, 64} {
			rate := map[string]float64{}
			for _, mode := range []string{"gpu", "cpu", "auto"} {
				p := &Placer{}
				p.model.Store(newModel(Constants{Cores: Costs{Sample: 1, Slow: 1}, Device: Costs{Window: 1, Sample: 1e-9, Slow: 1}, Link: 1e12}))
				rate[mode] = (&simulation{p: p, mode: mode, work: work}).run(clients)
			}
			t.Logf("%s, %2d clients: %.0f queries/s on the GPU, %.0f on cores, auto %.0f", name, clients, rate["gpu"], rate["cpu"], rate["auto"])
			assert.Greater(t, rate["auto"], 0.95*max(rate["gpu"], rate["cpu"]), "%s, %d clients", name, clients)
		}
	}
}

// FuzzRead reads any bytes as a file of constants: an error, or constants that estimates can
// be made from.
func FuzzRead(f *testing.F) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	good, err := json.Marshal(file{fileVersion, "m", now, h200})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version": 2, "machine": "m", "measured": "2026-11-01T00:00:00Z"}`))
	f.Add([]byte(`{"version": 2, "machine": "m", "measured": "2026-11-01T00:00:00Z", "cores": {"sample_ns": 1e-300, "slow": 64}, "device": {"sample_ns": 1, "slow": 1}, "link_bytes_per_second": 1e-300}`))
	f.Add([]byte(`{"version": 2, "machine": "m", "measured": "9999-12-31T23:59:59Z"}`))
	f.Add([]byte("[{}]"))
	path := filepath.Join(f.TempDir(), "constants.json")
	leaves := []offload.Size{{}, {Function: "rate", Series: 1000, Samples: 1e6, Decoded: 0.5, Missing: 1 << 30, Windows: 1e6, Results: 1 << 20}}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := read(path, "m", now)
		if err != nil {
			return
		}
		m := newModel(c)
		for _, l := range leaves {
			for x, s := range m.c.plain(l) {
				if math.IsNaN(s) || s < 0 {
					t.Errorf("%+v: executor %d is expected to take %g s for %+v", c, x, s, l)
				}
			}
			if e := m.estimate(l); e[Cores] < 0 || e[Device] < 0 {
				t.Errorf("%+v: %+v is expected to take %v", c, l, e)
			}
			m.observe(Cores, l, time.Second)
			m.observe(Device, l, time.Nanosecond)
		}
	})
}
