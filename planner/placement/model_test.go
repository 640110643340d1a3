package placement

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
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
	Cores:  Costs{Fixed: 16 * time.Microsecond, Sample: 1.6},
	Device: Costs{Fixed: 200 * time.Microsecond, Sample: 0.015},
	Link:   54e9,
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
		"just below the crossover":     {h200, offload.Size{Series: 80, Samples: 80_000, Windows: 20_000, Missing: 160_000}, Cores},
		"just above it":                {h200, offload.Size{Series: 90, Samples: 90_000, Windows: 22_500, Missing: 180_000}, Device},
		"a billion samples":            {h200, offload.Size{Series: 100_000, Samples: 1e9, Windows: 250e6, Missing: 2.2e9}, Device},
		"the same decoded":             {h200, offload.Size{Series: 100_000, Samples: 1e9, Windows: 250e6, Missing: 2.2e9, Decoded: 1}, Device},
		"few, decoded":                 {h200, offload.Size{Samples: 1_000_000, Missing: 2_000_000, Decoded: 1}, Cores},
		"results as large as samples":  {slow, offload.Size{Samples: 100e6, Windows: 100e6, Results: 800e6}, Cores},
		"many windows":                 {h200, offload.Size{Samples: 10_000, Windows: 1e6}, Device},
		"many series":                  {h200, offload.Size{Series: 10_000, Samples: 10_000}, Device},
		"a slow link":                  {slow, offload.Size{Samples: 100e6, Windows: 1e6, Missing: 200e6}, Cores},
		"a slow link and all is there": {slow, offload.Size{Samples: 100e6, Windows: 1e6}, Device},
	} {
		t.Run(name, func(t *testing.T) {
			e := NewModel(c.c).Estimate(c.l)
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
			return Costs{Fixed: time.Duration(r.Int64N(1e7)), Sample: 100 * r.Float64()}
		}
		c := Constants{Cores: costs(), Device: costs(), Link: 1e6 + r.Float64()*1e11}
		m := NewModel(c)
		l := offload.Size{Function: "rate", Series: r.Int64N(1e6), Samples: r.Int64N(1e9), Missing: r.Int64N(1e9), Windows: r.Int64N(1e9), Results: r.Int64N(1e9), Decoded: r.Float64()}
		for range r.IntN(20) {
			m.Observe(Executor(r.IntN(2)), l, time.Duration(r.Int64N(1e11)))
		}
		more, few := l, m.Estimate(l)
		for _, n := range []*int64{&more.Series, &more.Samples, &more.Missing, &more.Windows, &more.Results} {
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
	m := NewModel(h200)
	l := offload.Size{Function: "rate", Samples: 10_000_000, Missing: 60_000_000, Windows: 1_000_000}
	first := m.Estimate(l)
	require.Equal(t, Device, first.cheaper())
	for range 40 {
		m.Observe(Device, l, 3*first[Device])
	}
	require.InEpsilon(t, 3*first[Device], m.Estimate(l)[Device], 0.01)
	for range 100 {
		m.Observe(Device, l, time.Hour)
	}
	require.InEpsilon(t, furthest*first[Device], m.Estimate(l)[Device], 0.01)
	require.Equal(t, Cores, m.Estimate(l).cheaper())
	other := l
	other.Function = "delta"
	require.Equal(t, first, m.Estimate(other))
	for range 500 {
		m.Observe(Cores, l, first[Cores])
	}
	require.InEpsilon(t, first[Device], m.Estimate(l)[Device], 0.05)
	m.Observe(Device, l, 0)
	require.Equal(t, Device, m.Estimate(l).cheaper())
}

// crossover is what `gpubench -crossover` measured on an H200 and 16 cores: the
// constants, and what sums of rates of ever more samples took.
const crossover = "../../bench/results/2026-11-21-gpu-crossover-h200.json"

// bytesPerSample is how large the chunks of that are.
const bytesPerSample = 2.26

// TestCrossover: leaves of every size stay on the cores where these are clearly faster, and after
// some of them most go to the GPU where that is.
func TestCrossover(t *testing.T) {
	b, err := os.ReadFile(crossover)
	require.NoError(t, err)
	var r struct {
		Crossover struct {
			Points []struct {
				Series, Samples, Windows int64
				Cores                    float64 `json:"cores_ms"`
				Missing                  float64 `json:"gpu_not_resident_ms"`
				Resident                 float64 `json:"gpu_resident_ms"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(b, &r))
	require.Len(t, r.Crossover.Points, 13)
	for _, p := range r.Crossover.Points {
		for gpu, missing := range map[float64]int64{p.Resident: 0, p.Missing: int64(bytesPerSample * float64(p.Samples))} {
			m := NewModel(h200)
			l := offload.Size{Series: p.Series, Samples: p.Samples, Windows: p.Windows, Missing: missing}
			takes := [executors]time.Duration{time.Duration(1e6 * p.Cores), time.Duration(1e6 * gpu)}
			const early, leaves = 16, 100
			onDevice := 0
			for k := range leaves {
				chosen := m.Estimate(l).cheaper()
				if 1.3*p.Cores < gpu {
					require.Equal(t, Cores, chosen, "%d samples, %g ms on the GPU", p.Samples, gpu)
				}
				if k >= early && chosen == Device {
					onDevice++
				}
				m.Observe(chosen, l, takes[chosen])
			}
			if 1.3*gpu < p.Cores {
				require.Greater(t, onDevice, (leaves-early)*4/5, "%d samples, %g ms on the GPU", p.Samples, gpu)
			}
		}
	}
}

// work is a query of the simulation.
type work struct {
	cores time.Duration // its leaf on all cores, alone
	host  time.Duration // of one core, for its leaf on a GPU, which is kept waiting meanwhile
	gpu   time.Duration // its leaf on a GPU, alone
	serve time.Duration // of one core, for what is around the leaf
}

// dashboard is sixteen queries as 16 cores and an H200 take them, of a multiple of the samples.
func dashboard(times float64) (all []work) {
	for i, ms := range []float64{7, 10, 5, 3, 10, 6, 4, 6, 11, 3, 7, 2, 5, 5, 6, 1.5} {
		ms := func(fixed, more float64) time.Duration { return time.Duration((fixed + more*ms*times) * 1e6) }
		all = append(all, work{cores: ms(0, 1), host: ms(0.7, 0.1), gpu: ms(0.4, 0.15), serve: ms(1+float64(i%5)*times, 1)})
	}
	return all
}

// simulation is a machine of a number of cores, which goroutines share evenly, and a GPU that computes
// some leaves at once, in the order of their arrival.
type simulation struct {
	gpu     // what is not simulated
	p       *Placer
	mode    string // auto, gpu or cpu
	work    []work
	now     time.Duration
	queue   []*client // for the GPU; the first are computed
	typical time.Duration
}

// The cores, and how many leaves the GPU computes at once.
const simulatedCores, atOnce = 16, 9

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

func (s *simulation) Name() string { return "simulated" }

// Wait is that of device.Device.
func (s *simulation) Wait() time.Duration {
	return time.Duration(len(s.queue)) * s.typical * 2 / atOnce
}

// begin begins the next query of a client.
func (s *simulation) begin(c *client) {
	k := c.asked % len(s.work)
	c.work, c.began, c.done = s.work[k], s.now, s.p.Serve()
	c.asked += 7
	c.size = offload.Size{Function: fmt.Sprint(k), Samples: int64(c.work.cores), Results: int64(c.work.host + c.work.gpu)}
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
		s.p.model.Load().Observe(Device, c.size, took)
	case onCores:
		s.p.model.Load().Observe(Cores, c.size, took)
	case served:
		c.done()
		return true
	}
	c.stage, c.left = served, float64(c.work.serve)
	return false
}

// run is how many queries a second a number of clients have answered, of whom 20 are served at once.
func (s *simulation) run(clients int) float64 {
	const step, all = 20 * time.Microsecond, 6 * time.Second
	asking := make([]*client, min(clients, 20))
	for i := range asking {
		asking[i] = &client{asked: i * 5}
		s.begin(asking[i])
	}
	answers := 0
	for ; s.now < all; s.now += step {
		for _, c := range s.queue[:min(atOnce, len(s.queue))] {
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
				p.model.Store(NewModel(Constants{Cores: Costs{Sample: 1}, Device: Costs{Sample: 1e-9}, Link: 1e9}))
				rate[mode] = (&simulation{p: p, mode: mode, work: work}).run(clients)
			}
			t.Logf("%s, %2d clients: %.0f queries/s on the GPU, %.0f on cores, auto %.0f", name, clients, rate["gpu"], rate["cpu"], rate["auto"])
			assert.Greater(t, rate["auto"], 0.95*max(rate["gpu"], rate["cpu"]), "%s, %d clients", name, clients)
		}
	}
}
