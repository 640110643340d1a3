package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/promwarp/promwarp/selection"
)

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
	size  Size
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
	c.size = Size{Function: fmt.Sprint(k), Samples: int64(c.work.cores), Windows: int64(c.work.host + c.work.gpu)}
	chosen := s.mode
	if _, reason := s.p.estimate(&c.size, nil, s, false); chosen == "auto" && reason != "" {
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
