package main

import (
	"container/heap"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// costs are what was measured of one promwarp, with the command that measures each.
type costs struct {
	chunkBytes float64 // of a sample in memory, with tables and labels: docs/sizing.md, promwarp demo
	diskBytes  float64 // of a sample in files of cache.path: the same
	hostShare  float64 // memory of the process over chunks, with decoded samples and garbage: the same
	fetch      float64 // s of a core for a sample that is fetched and evaluated: bench -stages first
	upstream   float64 // s of a core of its Prometheus for the same: bench -stages first
	evaluate   float64 // s of a core for a cached sample: bench -stages cores
	series     float64 // s of a core for a series of a query: bench -stages cores
	query      float64 // s of a core for a query of the leaf, and its gRPC: e2e TestLeafFast
	point      float64 // s of a core of the root for a point that a leaf sends: the same
	pointBytes float64 // of such a point: the same
	restart    float64 // bytes a second that are ready again after a restart: docs/operating.md
}

// fleet is what is simulated.
type fleet struct {
	costs

	series, seriesOfLeaf      float64
	retention, interval, step time.Duration
	hot, most, groups         float64
	cores                     int
	link, rate                float64
	queries                   int
	seed                      uint64
}

// check says what of the flags makes no sense.
func (m *fleet) check() error {
	switch {
	case m.seriesOfLeaf < 1 || m.groups < 1 || m.cores < 1 || m.queries < 100:
		return errors.New("-leaf, -groups and -cores must be at least 1, -queries 100")
	case m.retention <= 0 || m.interval <= 0 || m.step <= 0:
		return errors.New("-range, -interval and -step must be longer than 0")
	case m.hot <= 0 || m.hot > 1 || m.most <= 0 || m.most > 1:
		return errors.New("-hot and -most are shares: more than 0, at most 1")
	case m.link <= 0 || m.rate <= 0:
		return errors.New("-link and -qps must be more than 0")
	}
	return nil
}

// total is what a fleet holds. Bytes and seconds.
type total struct {
	leaves                                       int
	samples, chunks                              float64
	hotOfLeaf, memoryOfLeaf, diskOfLeaf, restart float64
}

func (m *fleet) leaves() int { return int(math.Ceil(m.series / m.seriesOfLeaf)) }

func (m *fleet) samplesOfSeries() float64 { return float64(m.retention / m.interval) }

func (m *fleet) size() (t total) {
	t.leaves = m.leaves()
	t.samples = m.series * m.samplesOfSeries()
	t.chunks = t.samples * m.chunkBytes
	hot := t.samples * m.hot / float64(t.leaves)
	t.hotOfLeaf = hot * m.chunkBytes
	t.memoryOfLeaf = t.hotOfLeaf * m.hostShare
	t.diskOfLeaf = hot * m.diskBytes
	t.restart = t.diskOfLeaf / m.restart
	return t
}

// waits is what queries took, in seconds. series are those of the median query, most those of the
// largest; busy and root are shares of time.
type waits struct {
	series, most, first, firstOfMost, median, high, busy, root float64
	limit                                                      string
}

// simulate asks queries at random moments. A query's series are between 100 and the most, their
// logarithm evenly spread; each is on a leaf by hash.
func (m *fleet) simulate() waits {
	r := rand.New(rand.NewPCG(m.seed, 0))
	leaves := make([]places, m.leaves())
	for i := range leaves {
		leaves[i] = make(places, m.cores)
	}
	root := make(places, m.cores)
	most := max(101, m.most*m.series)
	steps := float64(m.retention / m.step)
	var took, sizes []float64
	var now, work, rootWork float64
	for range m.queries {
		now += r.ExpFloat64() / m.rate
		n := math.Exp(math.Log(100) + r.Float64()*(math.Log(most)-math.Log(100)))
		sizes = append(sizes, n)
		last, parts := now, 0.0
		for i, share := range spread(r, n, len(leaves)) {
			if share == 0 {
				continue
			}
			parts++
			cost := m.query + share*(m.costs.series+m.samplesOfSeries()*m.evaluate)
			work += cost
			last = max(last, leaves[i].take(now, cost)+steps*m.groups*m.pointBytes/m.link)
		}
		cost := parts * steps * m.groups * m.point
		rootWork += cost
		arrive := parts * steps * m.groups * m.pointBytes / m.link // over the root's link
		took = append(took, root.take(last+arrive, cost)-now)
	}
	slices.Sort(took)
	slices.Sort(sizes)
	w := waits{series: sizes[len(sizes)/2], median: took[len(took)/2], high: took[len(took)*99/100]}
	w.busy = work / now / float64(len(leaves)*m.cores)
	w.root = rootWork / now / float64(m.cores)
	w.most, w.first, w.firstOfMost = most, m.first(w.series), m.first(most)
	w.limit = m.limit(w)
	return w
}

// first is how long a query takes whose samples are not cached, of an idle fleet. A leaf fetches on
// half of its cores what its Prometheus makes on the other half.
func (m *fleet) first(series float64) float64 {
	of := math.Ceil(series / float64(m.leaves()))
	samples := of * m.samplesOfSeries()
	cores := float64(m.cores) / 2
	return m.query + max(samples*m.fetch/cores, samples*m.upstream/cores, samples*m.diskBytes/m.link)
}

// limit names what bounds the fleet first.
func (m *fleet) limit(w waits) string {
	largest := w.most / float64(m.leaves()) * m.samplesOfSeries() * m.chunkBytes
	switch t := m.size(); {
	case max(w.root, w.busy) > 0.8 && w.root > w.busy:
		return "the root's cores"
	case w.busy > 0.8:
		return "the leaves' cores"
	case w.firstOfMost > 120:
		return "a first query's fetch takes over 2 min"
	case largest > t.hotOfLeaf:
		return "memory: the largest query reads more than what is hot"
	case w.root > w.busy:
		return "next: the root"
	default:
		return "next: the leaves' cores"
	}
}

// spread divides n series over leaves at random, as hashing does.
func spread(r *rand.Rand, n float64, leaves int) []float64 {
	of := make([]float64, leaves)
	mean := n / float64(leaves)
	for i := range of {
		of[i] = math.Max(0, math.Round(mean+r.NormFloat64()*math.Sqrt(mean)))
	}
	return of
}

// places are the moments at which the cores of a machine are free again.
type places []float64

// take has a machine work on something for so many seconds of one core, spread over all that are free, and
// returns when it is done.
func (p places) take(now, cost float64) float64 {
	h := floats{p}
	heap.Init(h)
	begin := math.Max(now, p[0])
	free := 0
	for _, at := range p {
		if at <= begin {
			free++
		}
	}
	end := begin + cost/float64(free)
	for range free {
		p[0] = end
		heap.Fix(h, 0)
	}
	return end
}

// floats is a heap of numbers.
type floats struct{ of places }

func (f floats) Len() int           { return len(f.of) }
func (f floats) Less(i, j int) bool { return f.of[i] < f.of[j] }
func (f floats) Swap(i, j int)      { f.of[i], f.of[j] = f.of[j], f.of[i] }
func (f floats) Push(any)           {}
func (f floats) Pop() any           { return nil }

// measured are the costs of a Xeon's cores.
var measured = costs{
	chunkBytes: 3.0, diskBytes: 2.6, hostShare: 2.5,
	fetch: 8.9e-9, upstream: 7.0e-9, evaluate: 1.5e-9, series: 1e-6,
	query: 1e-3, point: 100e-9, pointBytes: 18, restart: 1e9 / 0.26,
}
