package main

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// costs are what was measured. Times are of one core, but for restart.
type costs struct {
	chunkBytes, decodedBytes, diskBytes float64 // of a sample in memory and in files: docs/sizing.md
	garbage                             float64 // of a process, as a share of what it caches: the same

	fetch, upstream float64 // s a sample that is fetched: of promwarp, of its Prometheus
	busy            float64 // the share of a machine's cores that work on one query meanwhile
	evaluate        float64 // s a sample that is decoded
	decode          float64 // times as long from chunks: docs/sizing.md
	restart         float64 // s a byte of files that is ready after a restart: docs/sizing.md

	query, leafPoint              float64 // s a query of a leaf, and a point that it sends
	rootQuery, rootLeaf           float64 // s a query of the root, and a leaf that it asks
	rootPoint, rootAnswered, wire float64 // s a point of a leaf, more s a point of an answer, bytes of one
}

// measured are the costs. Fetching: bench/results/2026-11-23-first.txt, of three queries of 82.9 M samples
// on 16 cores, 1470 and 863 ms of cores in 262 ms. Evaluating: 19 queries on one core in
// bench/results/2026-11-22-scaling-16-cores.txt, 26.2 ms for 8.6 M samples. Leaf and root: make leafbench.
var measured = costs{
	chunkBytes: 3.0, decodedBytes: 10.2, diskBytes: 2.6, garbage: 0.25,
	fetch: 17.7e-9, upstream: 10.4e-9, busy: 0.56, evaluate: 3.0e-9, decode: 4.5, restart: 0.26e-9,
	query: 0.6e-3, leafPoint: 41e-9, rootQuery: 0.5e-3, rootLeaf: 0.45e-3, rootPoint: 117e-9, rootAnswered: 114e-9, wire: 18,
}

// fleet is what is simulated.
type fleet struct {
	costs

	series, seriesOfLeaf      float64
	retention, interval, step time.Duration
	hot, most, groups         float64
	remembered                float64
	cores                     int
	link, rate                float64
	queries                   int
	seed                      uint64
}

// check says what of the flags makes no sense.
func (m *fleet) check() error {
	share := func(v float64) bool { return v > 0 && v <= 1 }
	switch {
	case !(m.seriesOfLeaf >= 1 && m.groups >= 1 && m.cores >= 1 && m.queries >= 100):
		return errors.New("-leaf, -groups and -cores must be at least 1, -queries 100")
	case m.retention <= 0 || m.interval <= 0 || m.step <= 0:
		return errors.New("-range, -interval and -step must be longer than 0")
	case !share(m.hot) || !share(m.most) || m.remembered < 0 || !share(1-m.remembered):
		return errors.New("-hot and -most are shares: more than 0, at most 1; -remembered is less than 1")
	case !(m.link > 0 && m.rate > 0):
		return errors.New("-link and -qps must be more than 0")
	}
	return nil
}

func (m *fleet) leaves() int { return int(math.Ceil(m.series / m.seriesOfLeaf)) }

func (m *fleet) samplesOfSeries() float64 { return float64(m.retention / m.interval) }

func (m *fleet) steps() float64 { return float64(m.retention/m.step) + 1 }

// A query's series are between 100 and the largest query's, their logarithm evenly spread.
func (m *fleet) largest() float64 { return max(101, m.most*m.series) }
func (m *fleet) median() float64  { return math.Sqrt(100 * m.largest()) }

// total is what a fleet and each of its leaves have. Bytes and seconds.
type total struct {
	leaves                     int
	samples, chunks            float64
	hot, memory, disk, restart float64 // of a leaf
}

// size has a leaf's memory hold its hot chunks, as many bytes of decoded samples, and garbage.
func (m *fleet) size() (t total) {
	t.leaves = m.leaves()
	t.samples = m.series * m.samplesOfSeries()
	t.chunks = t.samples * m.chunkBytes
	hot := t.samples * m.hot / float64(t.leaves)
	t.hot = hot * m.chunkBytes
	t.memory = t.hot * 2 * (1 + m.garbage)
	t.disk = hot * m.diskBytes
	t.restart = t.disk * m.costs.restart
	return t
}

// sample is the s of a core for a cached sample. Decoded are as many bytes as chunks have.
func (m *fleet) sample() float64 {
	decoded := m.chunkBytes / m.decodedBytes
	return m.evaluate * (decoded + (1-decoded)*m.decode)
}

// points is how many points a leaf sends that has this number of a query's series.
func (m *fleet) points(series float64) float64 { return m.steps() * min(m.groups, series) }

// ofRoot is what a query costs the root's cores, by the points of all leaves.
func (m *fleet) ofRoot(points float64) float64 {
	return m.rootQuery + float64(m.leaves())*m.rootLeaf + points*m.rootPoint + m.steps()*m.groups*m.rootAnswered
}

// latency is what one query takes while nothing else is asked. Seconds, and bytes to the root.
type latency struct{ first, otherGrid, repeated, network float64 }

func (m *fleet) alone(series float64) (l latency) {
	of := series / float64(m.leaves())
	samples, cores := of*m.samplesOfSeries(), float64(m.cores)*m.busy
	points := m.points(of) * float64(m.leaves())
	l.network = points * m.wire
	l.repeated = m.query + m.points(of)*m.leafPoint + l.network/m.link + m.ofRoot(points)/cores
	l.otherGrid = l.repeated + samples*m.sample()/cores
	l.first = l.repeated + samples*(m.fetch+m.upstream)/cores
	return l
}

// waits is what queries took, in seconds. Shares of the time are those in which leaves' cores, the root's,
// and its network are busy.
type waits struct{ median, high, busy, root, network float64 }

// answered is a query whose leaves have answered: when it came, when the last of them had, and what they sent.
type answered struct{ asked, last, points float64 }

// simulate asks queries at random moments. Each of their series is on a leaf by hash.
func (m *fleet) simulate() (w waits) {
	r := rand.New(rand.NewPCG(m.seed, 0))
	leaves := make([]places, m.leaves())
	for i := range leaves {
		leaves[i] = make(places, m.cores)
	}
	all := make([]answered, m.queries)
	var now float64
	for i := range all {
		now += r.ExpFloat64() / m.rate
		series := math.Exp(math.Log(100) + r.Float64()*(math.Log(m.largest())-math.Log(100)))
		remembered := r.Float64() < m.remembered
		q := answered{asked: now, last: now}
		for k, share := range spread(r, series, len(leaves)) {
			encode, evaluate := m.query+m.points(share)*m.leafPoint, 0.0
			if !remembered {
				evaluate = share * m.samplesOfSeries() * m.sample()
			}
			w.busy += encode + evaluate
			q.last = max(q.last, leaves[k].work(leaves[k].work(now, evaluate, m.busy), encode, 0))
			q.points += m.points(share)
		}
		all[i] = q
	}
	slices.SortFunc(all, func(a, b answered) int { return cmp.Compare(a.last, b.last) })
	root, network := make(places, m.cores), make(places, 1)
	var took []float64
	for _, q := range all {
		cost, sent := m.ofRoot(q.points), q.points*m.wire/m.link
		w.root += cost
		w.network += sent
		took = append(took, root.work(network.work(q.last, sent, 1), cost, m.busy)-q.asked)
	}
	slices.Sort(took)
	w.median, w.high = took[len(took)/2], took[len(took)*99/100]
	w.busy /= now * float64(len(leaves)*m.cores)
	w.root /= now * float64(m.cores)
	w.network /= now
	return w
}

// spread divides series over leaves at random, as hashing does.
func spread(r *rand.Rand, series float64, leaves int) []float64 {
	of := make([]float64, leaves)
	mean := series / float64(leaves)
	for i := range of {
		of[i] = math.Max(0, math.Round(mean+r.NormFloat64()*math.Sqrt(mean*(1-1/float64(leaves)))))
	}
	return of
}

// places are the moments at which the cores of a machine are free again.
type places []float64

// work has a machine work on something that costs one core this many seconds. It is spread over a share of
// the cores that are free when the first one is, or done by that one alone. work returns when it is done.
func (p places) work(now, cost, share float64) float64 {
	slices.Sort(p)
	begin := max(now, p[0])
	free, _ := slices.BinarySearchFunc(p, begin, func(at, begin float64) int {
		if at <= begin {
			return -1
		}
		return 1
	})
	used := max(1, int(math.Round(float64(free)*share)))
	end := begin + cost/float64(used)
	for i := range used {
		p[i] = end
	}
	return end
}

// need is what machines have. Bytes.
type need struct{ cores, memory, disk float64 }

// published is the sizing that Grafana Labs publishes for Mimir's distributors, ingesters, store gateways
// and queriers: grafana.com/docs/mimir/latest/manage/run-production-environment/planning-capacity.
// Blocks in object storage are not in it.
func (m *fleet) published() (n need) {
	received := m.series / m.interval.Seconds() / 25_000
	inMemory := 3 * m.series / 300_000
	tens := m.rate / 10
	n.cores = received + inMemory + tens + tens
	n.memory = (received + 2.5*inMemory + tens + tens) * 1e9
	n.disk = 5e9*inMemory + 13e9*m.series/1e6
	return n
}
