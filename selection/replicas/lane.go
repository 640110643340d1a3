package replicas

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// piece is a chunk of a series of a replica, or what was fetched of it at once.
type piece struct {
	selection.Chunk
	of      *selection.Selection
	series  int
	times   []int64 // of its samples that are merged
	values  []float64
	changed bool // whether its values are not those that count
}

func (p *piece) bytes() []byte { return p.of.Bytes(p.Chunk) }

func (p *piece) floats() bool { return isFloat(p.Enc) }

func isFloat(e chunkenc.Encoding) bool { return e == chunkenc.EncXOR || e == chunkenc.EncXOR2 }

func (p *piece) end() int64 { return p.times[len(p.times)-1] }

// deal deals the chunks of all replicas out to lanes, each to the first whose last chunk ends before it.
// Equal chunks are dealt out once. The order is Thanos's: by start, end, encoding, and bytes downward.
func deal(chunks [][]*piece) (lanes [][]*piece) {
	compare := func(a, b []*piece) int {
		return cmp.Or(
			cmp.Compare(a[0].times[0], b[0].times[0]), cmp.Compare(a[len(a)-1].end(), b[len(b)-1].end()), cmp.Compare(a[0].Enc, b[0].Enc),
			slices.CompareFunc(b, a, func(x, y *piece) int { return bytes.Compare(x.bytes(), y.bytes()) }),
		)
	}
	slices.SortFunc(chunks, compare)
	for _, c := range slices.CompactFunc(chunks, func(a, b []*piece) bool { return compare(a, b) == 0 }) {
		k := slices.IndexFunc(lanes, func(lane []*piece) bool { return lane[len(lane)-1].end() < c[0].times[0] })
		if k < 0 {
			k, lanes = len(lanes), append(lanes, nil)
		}
		lanes[k] = append(lanes[k], c...)
	}
	return lanes
}

const (
	// fetchEdge is where fetches may begin and end, which chunks are cut at: the multiples of these ms.
	fetchEdge = 30 * 60_000
	// chunkRange is where chunks of a Prometheus end at the latest, in ms.
	chunkRange = 4 * fetchEdge
	// predicted is how many samples a chunk has when its Prometheus predicts where it ends: a quarter.
	predicted = 30
	// madeOf is how many samples a chunk has that was made here of samples.
	madeOf = 120
)

// Begin is from when on samples must be known to tell where the chunks at mint (ms) begin.
func Begin(mint int64) int64 { return mint - (mint%chunkRange+chunkRange)%chunkRange }

// cutter tells whether a chunk was cut by its Prometheus or by a fetch, by where that cuts chunks.
type cutter struct {
	samples     int // of the present chunk
	start, last int64
	end         int64 // from when on another chunk begins
	enc         chunkenc.Encoding
	before      selection.Chunk   // what was fetched last
	begun       chunkenc.Appender // of the first histograms, until the end is predicted
	data        chunkenc.Chunk    // that it appends to
}

// begins reports whether p, whose first sample is at t (ms), begins another chunk of the Prometheus.
// What came as samples was cut when it had madeOf; histograms come as chunks.
func (c *cutter) begins(t int64, p *piece) bool {
	made, most := p.floats() && c.before.Samples == madeOf && c.before.Len <= chunkenc.MaxBytesPerXORChunkBeforeAppend, 8*predicted
	c.before = p.Chunk
	cut := c.last/fetchEdge < t/fetchEdge || made
	if !p.floats() {
		most = math.MaxInt
	}
	few := !p.floats() && c.samples < chunkenc.MinSamplesPerHistogramChunk && t < Begin(c.start)+chunkRange
	if c.samples > 0 && c.enc == p.Enc && cut && (t < c.end || few) && c.samples < most {
		return false
	}
	*c = cutter{start: t, end: Begin(t) + chunkRange, enc: p.Enc, before: c.before}
	if !p.floats() {
		if data, err := chunkenc.NewEmptyChunk(p.Enc); err == nil {
			c.data = data
			c.begun, _ = data.Appender() // of an empty chunk it does not fail
		}
	}
	return true
}

// add adds the present sample to the present chunk.
func (c *cutter) add(from chunkenc.Iterator) {
	c.last = from.AtT()
	c.samples++
	if isFloat(c.enc) {
		if c.samples == predicted {
			c.predict(4)
		}
		return
	}
	if c.begun == nil {
		return
	}
	var err error
	if c.enc == chunkenc.EncHistogram || c.enc == chunkenc.EncHistogramST {
		_, h := from.AtHistogram(nil)
		_, _, c.begun, err = c.begun.AppendHistogram(nil, from.AtST(), c.last, h, true)
	} else {
		_, h := from.AtFloatHistogram(nil)
		_, _, c.begun, err = c.begun.AppendFloatHistogram(nil, from.AtST(), c.last, h, true)
	}
	const target = chunkenc.TargetBytesPerHistogramChunk
	if n := len(c.data.Bytes()); err == nil && n >= target/4 {
		c.predict(target / float64(n))
	}
	if err != nil || len(c.data.Bytes()) >= target/4 {
		c.begun, c.data = nil, nil
	}
}

// predict predicts the end of a chunk that takes so many times as long as until now.
func (c *cutter) predict(times float64) {
	if n := float64(c.end-c.start) / (float64(c.last-c.start+1) * times); n > 1 {
		c.end = int64(float64(c.start) + float64(c.end-c.start)/math.Floor(n))
	}
}

// kind is what the present sample of a source is.
type kind int

const (
	none kind = iota // the source has ended
	float
	histograms
)

// source is samples in time order: a lane, or what is chosen of two sources.
type source interface {
	next() kind
	seek(t int64) kind // goes on to the first sample at t or later, if the present one is earlier
	time() int64       // of the present sample, in ms
	value() float64    // of a float
	lane() *lane       // that the present sample is of
	raise(least float64)
}

// lane is the samples of chunks that do not overlap.
type lane struct {
	pieces   []*piece
	ends     []int // samples of chunk k end before ends[k]
	times    []int64
	values   []float64
	counting bool

	position int     // of the present sample
	current  int     // chunk that it is in
	raised   float64 // what is added to values
}

// newLane returns a lane of pieces. Of counters the resets are taken out.
func newLane(pieces []*piece, counting bool) *lane {
	l := &lane{pieces: pieces, counting: counting, position: -1}
	samples := 0
	for _, p := range pieces {
		samples += len(p.times)
	}
	l.times, l.values = make([]int64, 0, samples), make([]float64, 0, samples)
	var total, last float64
	began := false
	for _, p := range pieces {
		for k, value := range p.values {
			if counting && p.floats() {
				switch {
				case math.IsNaN(value):
					continue
				case !began:
					total = value
				case value >= last:
					total += value - last
				default:
					total += value
				}
				p.changed = p.changed || total != value
				began, last, value = true, value, total
			}
			l.times, l.values = append(l.times, p.times[k]), append(l.values, value)
		}
		l.ends = append(l.ends, len(l.times))
	}
	return l
}

func (l *lane) next() kind {
	l.position++
	return l.kind()
}

// kind is that of the present sample.
func (l *lane) kind() kind {
	if l.position >= len(l.times) {
		return none
	}
	for l.position >= l.ends[l.current] {
		l.current++
	}
	if l.pieces[l.current].floats() {
		return float
	}
	return histograms
}

func (l *lane) seek(t int64) kind {
	rest := l.times[l.position:]
	if len(rest) > 1 && rest[0] < t && rest[1] >= t { // as nearly always
		l.position++
	} else {
		l.position += sort.Search(len(rest), func(i int) bool { return rest[i] >= t })
	}
	return l.kind()
}

func (l *lane) time() int64 { return l.times[l.position] }
func (l *lane) lane() *lane { return l }

func (l *lane) value() float64 {
	if l.raised == 0 {
		return l.values[l.position] // to which adding anything would change a stale marker
	}
	return l.values[l.position] + l.raised
}

// raise adds to a counter what its present value is behind least.
func (l *lane) raise(least float64) {
	if v := l.value(); l.counting && least > v {
		l.raised += least - v
	}
}

// firstPenalty is the penalty in ms of what is not read where there is no last distance yet.
const firstPenalty = 5000

// pair is what is chosen of two sources.
type pair struct {
	in      [2]source
	kinds   [2]kind
	penalty [2]int64 // ms that the next sample must be later by
	chosen  int      // the source that the present sample is of
	valued  int      // the source whose value is the present one
	last    int64    // time of the present sample, in ms; math.MinInt64 before the first
}

func newPair(a, b source) *pair {
	return &pair{in: [2]source{a, b}, kinds: [2]kind{a.next(), b.next()}, last: math.MinInt64}
}

func (p *pair) next() kind {
	before, wasFloat, value := p.chosen, p.kinds[p.chosen] == float, 0.0
	if wasFloat {
		value = p.in[p.valued].value()
	}
	k := p.advance()
	if p.chosen != before && wasFloat {
		p.raise(value)
	}
	return k
}

// advance chooses the next sample.
func (p *pair) advance() kind {
	for i, in := range p.in {
		if p.kinds[i] != none {
			p.kinds[i] = in.seek(p.last + 1 + p.penalty[i])
		}
	}
	for i := range p.in {
		if other := 1 - i; p.kinds[i] == none {
			p.chosen = other
			if p.kinds[other] != none {
				p.read(other)
			}
			return p.kinds[other]
		}
	}
	p.chosen = 0
	if p.in[1].time() < p.in[0].time() {
		p.chosen = 1
	}
	penalty := int64(firstPenalty)
	if p.last != math.MinInt64 {
		penalty = 2 * (p.in[p.chosen].time() - p.last)
	}
	p.penalty[1-p.chosen] = penalty
	p.read(p.chosen)
	return p.kinds[p.chosen]
}

// read makes the present sample of source i that of the pair.
func (p *pair) read(i int) {
	p.penalty[i], p.last, p.valued = 0, p.in[i].time(), i
}

func (p *pair) seek(t int64) kind {
	for p.last < t {
		if p.next() == none {
			return none
		}
	}
	return p.kinds[p.chosen]
}

func (p *pair) time() int64    { return p.last }
func (p *pair) value() float64 { return p.in[p.valued].value() }
func (p *pair) lane() *lane    { return p.in[p.valued].lane() }

func (p *pair) raise(least float64) {
	for i, in := range p.in {
		if p.kinds[i] == float {
			in.raise(least)
		}
	}
}
