package results

import (
	"math"
	"sync"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Key tells leaves apart, and the steps at which they are evaluated. Equal keys come
// to equal values at steps whose samples are the same.
type Key struct {
	Selector string // see selection.Provenance
	Leaf     string // everything else that the leaf's values depend on
	Interval int64  // ms between steps
	Phase    int64  // ms from a multiple of that to the next step
}

// Memory remembers values of leaves, within a limit. What was used least recently
// makes room. It is safe for concurrent use.
type Memory struct {
	limit int64 // bytes

	mu    sync.Mutex
	bytes int64
	byKey *simplelru.LRU[Key, *entry]

	kept, evaluated, evicted prometheus.Counter
}

// entry is what is remembered of one leaf. It is never changed, but for asked.
type entry struct {
	values  *Values
	settled []selection.Settled // what the windows of the steps lie in
	size    int64               // bytes
	// asked is the earliest step (ms) that was asked for since values were made, and
	// in the time before. It is guarded by the memory's mutex.
	asked [2]int64
}

// largest is the divisor of the limit that gives the most bytes of one leaf.
const largest = 4

// New returns a memory of limit bytes, or nil if that is 0. r receives its metrics;
// nil means none.
func New(limit int64, r prometheus.Registerer) *Memory {
	if limit <= 0 {
		return nil
	}
	auto := instrument.With(r)
	m := &Memory{limit: limit}
	// Bytes are what is bounded.
	m.byKey, _ = simplelru.NewLRU(math.MaxInt, func(_ Key, e *entry) { m.bytes -= e.size })
	m.kept = auto.Counter("promwarp_results_kept_steps_total", "Steps of aggregations that were remembered from earlier queries.")
	m.evaluated = auto.Counter("promwarp_results_evaluated_steps_total", "Steps of aggregations that could be remembered and were evaluated.")
	m.evicted = auto.Counter("promwarp_results_evictions_total", "Aggregations forgotten to stay within the limit.")
	auto.GaugeOf("promwarp_results_bytes", "Memory that remembered results take, in bytes.", func() float64 { return float64(m.Bytes()) })
	auto.GaugeOf("promwarp_results_limit_bytes", "Most memory that remembered results may take, in bytes.", func() float64 { return float64(limit) })
	auto.GaugeOf("promwarp_results_entries", "Aggregations of which results are remembered.", func() float64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return float64(m.byKey.Len())
	})
	return m
}

// Bytes is the memory that is taken, in bytes; none by a nil Memory.
func (m *Memory) Bytes() int64 {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// Holds reports whether that many values of a leaf would be kept.
func (m *Memory) Holds(values int64) bool { return 16*values <= m.limit/largest }

// Count counts steps that were remembered and steps that were evaluated.
func (m *Memory) Count(kept, evaluated int) {
	m.kept.Add(float64(kept))
	m.evaluated.Add(float64(evaluated))
}

// Lookup returns what is remembered of a leaf with the given reach at steps of g, and
// which of these, from from on. They are consecutive, and every sample that they
// read has the revision that it had when they were evaluated. It returns nil if there
// are none.
func (m *Memory) Lookup(key Key, r Reach, g plan.Grid, p *selection.Provenance) (found *StepRange, from int) {
	e, _ := m.find(key, g.Start)
	if e == nil {
		return nil, 0
	}
	lo, hi := r.Settled(e.values.Grid, e.settled, p.Settled)
	ahead := int((g.Start - e.values.Grid.Start) / g.Interval) // steps of e before those of g
	lo, hi = max(lo, ahead), min(hi, ahead+g.Steps)
	if lo == 0 && lo > ahead && e.values.Fresh[0] < 0 {
		lo++ // of the first step of g alone it does not matter
	}
	if lo >= hi {
		return nil, 0
	}
	return &StepRange{Values: e.values, From: lo, To: hi}, lo - ahead
}

// find returns what is remembered, now the most recently used, or nil, and the
// earliest step that was asked for lately, of which start is one (ms).
func (m *Memory) find(key Key, start int64) (e *entry, earliest int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byKey.Get(key)
	if !ok {
		return nil, start
	}
	e.asked[0] = min(e.asked[0], start)
	return e, min(e.asked[0], e.asked[1])
}

// Store keeps what v, the values of a leaf with the given reach, has of steps whose
// samples p knows the revision of, together with the steps beside them that are
// remembered already, if these are still right and were asked for lately.
func (m *Memory) Store(key Key, r Reach, v *Values, p *selection.Provenance) {
	from, to := r.Settled(v.Grid, p.Settled, p.Settled)
	if from == to {
		return
	}
	ranges := []StepRange{{v, from, to}}
	if e, earliest := m.find(key, v.Grid.Start); e != nil {
		old := e.values
		lo, hi := r.Settled(old.Grid, e.settled, p.Settled)
		ahead := int((v.Grid.Start - old.Grid.Start) / v.Grid.Interval)
		first, last := from+ahead, to+ahead // as steps of old
		if lo < hi && old.Fresh[lo] < 0 && (first < lo || first == lo && v.Fresh[from] >= 0) {
			lo++ // v has more of it
		}
		switch {
		case lo <= first && last <= hi:
			return // nothing is new
		case lo < hi && (first < hi || first == hi && v.Fresh[from] >= 0) && lo <= last:
			// Dashboards move on.
			lo = max(lo, min(first, int((earliest-old.Grid.Start)/old.Grid.Interval)))
			ranges = ranges[:0]
			if first < lo {
				ranges = append(ranges, StepRange{v, from, lo - ahead})
			}
			ranges = append(ranges, StepRange{old, lo, hi})
			if hi < last {
				ranges = append(ranges, StepRange{v, hi - ahead, to})
			}
		case hi-lo >= to-from:
			return // of two stretches apart the longer one stays
		}
	}
	start := v.Grid.Start
	v = Join(ranges...)
	// Labels may lie in memory together with those of many other series.
	for i := range v.Rows {
		v.Rows[i].Labels = v.Rows[i].Labels.Copy()
	}
	for i, l := range v.Series {
		v.Series[i] = l.Copy()
	}
	e := &entry{values: v}
	for _, s := range p.Settled { // what v has read of them
		if s.From, s.To = max(s.From, v.Grid.Start-r.Offset-r.Width+1), min(s.To, v.Grid.End()-r.Offset+1); s.From < s.To {
			e.settled = append(e.settled, s)
		}
	}
	e.asked = [2]int64{math.MaxInt64, start}
	e.size = v.size() + int64(unsafe.Sizeof(*e)) + int64(len(key.Leaf)+len(key.Selector)) +
		int64(cap(e.settled))*int64(unsafe.Sizeof(selection.Settled{})) + perKey
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.byKey.Peek(key); ok {
		e.asked[1] = min(start, old.asked[0])
		m.byKey.Remove(key)
	}
	if e.size > m.limit/largest {
		return
	}
	for m.bytes+e.size > m.limit {
		m.byKey.RemoveOldest()
		m.evicted.Inc()
	}
	m.byKey.Add(key, e)
	m.bytes += e.size
}

// perKey is the memory of a key's place in the map and in the order of use, about, in bytes.
const perKey = 3 * int64(unsafe.Sizeof(Key{}))

// Reach says what a step at time t (ms) reads: the samples of (t-Offset-Width,
// t-Offset].
type Reach struct{ Width, Offset int64 }

// Settled returns the longest run of steps of g, from from to to, the end excluded, each of which
// reads nothing but samples of one stretch of which a and b know the same revision.
func (r Reach) Settled(g plan.Grid, a, b []selection.Settled) (from, to int) {
	begin, end := 0, 0 // the present run
	for _, s := range common(a, b) {
		// Rounded up, where they are not before the first step.
		first := max((s.From-1+r.Width+r.Offset-g.Start+g.Interval-1)/g.Interval, 0)
		last := min((s.To+r.Offset-g.Start+g.Interval-1)/g.Interval, int64(g.Steps)) // not included
		if first >= last {
			continue
		}
		if int(first) > end {
			begin = int(first)
		}
		if end = int(last); end-begin > to-from {
			from, to = begin, end
		}
	}
	return from, to
}

// common returns the spans in which a and b, each in time order, have the same
// revisions, whatever these are; none touches another.
func common(a, b []selection.Settled) (out []selection.Settled) {
	for len(a) > 0 && len(b) > 0 {
		from, to := max(a[0].From, b[0].From), min(a[0].To, b[0].To)
		if from < to && a[0].Revision == b[0].Revision {
			if k := len(out) - 1; k >= 0 && out[k].To == from {
				out[k].To = to
			} else {
				out = append(out, selection.Settled{From: from, To: to})
			}
		}
		if a[0].To == to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}
