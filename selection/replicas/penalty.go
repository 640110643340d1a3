package replicas

import (
	"cmp"
	"context"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/samples"
)

// Counting reports whether a Querier of Thanos takes what a function reads for counters. The name is
// the hint that Prometheus's engine gives with a selector.
func Counting(function string) bool {
	switch function {
	case "increase", "rate", "irate", "resets":
		return true
	}
	return false
}

// Penalty merges parts, what each replica has of one selector from mint to maxt (ms, both included), as a
// Querier of Thanos does:
//
//   - The chunks of a series are dealt out to as few lanes as there may be without an overlap in one.
//   - Of two lanes the one that has the earliest next sample is read. The other has to have a sample
//     more than twice the last distance later to be read: that is its penalty.
//   - The outcome is the first lane of two for the next one.
//
// With counting, the resets of each lane are taken out before and a lane that is behind the other
// when it is read again is raised to it. Chunks of which nothing is left out are kept as they are.
// Start timestamps of others are lost. A histogram behind one of another lane is not known to follow
// no reset, which a Querier takes it for. The parts begin at Begin(mint), to tell where chunks do.
func Penalty(ctx context.Context, mint, maxt int64, counting bool, parts ...*selection.Selection) (*selection.Selection, error) {
	all := bySeries(parts)
	const batch = 256
	merged := make([]*selection.Selection, (len(all)+batch-1)/batch)
	errs := make([]error, len(merged))
	parallel.For(len(merged), func(k int) {
		m := merger{Builder: selection.NewBuilder(0).Within(ctx), mint: mint, maxt: maxt, counting: counting}
		if errs[k] = m.Watch.Now(); errs[k] != nil {
			return
		}
		for _, s := range all[k*batch : min((k+1)*batch, len(all))] {
			if errs[k] = cmp.Or(m.Watch.Err(), m.add(s)); errs[k] != nil {
				m.Watch.Leave()
				return
			}
		}
		merged[k], errs[k] = m.Finish()
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return selection.Join(ctx, merged...)
}

// series is a series, and where it is in the selections that have it.
type series struct {
	labels labels.Labels
	parts  []*selection.Selection
	index  []int // in each of parts
}

// bySeries returns the series of all parts in label order.
func bySeries(parts []*selection.Selection) (all []series) {
	next := make([]int, len(parts))
	for {
		var least labels.Labels
		found := false
		for p, part := range parts {
			if next[p] < part.NumSeries() && (!found || labels.Compare(part.Labels(next[p]), least) < 0) {
				least, found = part.Labels(next[p]), true
			}
		}
		if !found {
			return all
		}
		one := series{labels: least}
		for p, part := range parts {
			if i := next[p]; i < part.NumSeries() && labels.Equal(part.Labels(i), least) {
				one.parts, one.index = append(one.parts, part), append(one.index, i)
				next[p]++
			}
		}
		all = append(all, one)
	}
}

// merger writes merged series.
type merger struct {
	*selection.Builder
	mint, maxt int64 // ms, both included
	counting   bool
	decoder    chunkenc.Iterator

	times  []int64 // chosen samples that are not written yet
	values []float64
	run    run // of the last of them
}

// run are chosen samples of one chunk that follow each other.
type run struct {
	piece    *piece
	start    int  // its first sample in merger.times
	adjusted bool // whether values of the chunk are raised
}

// add merges the chunks of one series.
func (m *merger) add(s series) error {
	m.Series(s.labels)
	if len(s.parts) == 1 && !m.counting {
		for _, c := range s.parts[0].Overlapping(s.index[0], m.mint, m.maxt) {
			if err := m.Chunk(c.Enc, c.MinT, c.MaxT, s.parts[0].Bytes(c)); err != nil {
				return err
			}
		}
		return nil
	}
	dealt, err := m.lanes(s)
	if err != nil || len(dealt) == 0 {
		return err
	}
	chosen := source(dealt[0])
	for _, l := range dealt[1:] {
		chosen = newPair(chosen, l)
	}
	for k := chosen.next(); k != none; k = chosen.next() {
		if err := m.choose(chosen.lane()); err != nil {
			return err
		}
	}
	if err := m.endRun(); err != nil {
		return err
	}
	return m.writeFloats(len(m.times))
}

// lanes reads a series into lanes.
func (m *merger) lanes(s series) (all []*lane, err error) {
	var chunks [][]*piece
	for k, part := range s.parts {
		of, err := m.read(part, s.index[k])
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, of...)
	}
	for _, pieces := range deal(chunks) {
		all = append(all, newLane(pieces, m.counting))
	}
	return all, nil
}

// read returns what one replica has of a series from m.mint to m.maxt: the chunks of its server, each in the
// pieces that it was fetched in.
func (m *merger) read(part *selection.Selection, series int) (chunks [][]*piece, err error) {
	var cut cutter
	for _, c := range part.Chunks(series) {
		p, began, begins := &piece{Chunk: c, of: part, series: series}, false, true
		m.decoder = part.Decode(series, []selection.Chunk{c}, math.MinInt64, math.MaxInt64, m.decoder)
		for m.decoder.Next() != chunkenc.ValNone {
			t, v := m.decoder.AtT(), 0.0
			if !began {
				began, begins = true, cut.begins(t, p)
			}
			cut.add(m.decoder)
			if t < m.mint || t > m.maxt {
				continue
			}
			if p.floats() {
				_, v = m.decoder.At()
			}
			if p.times == nil {
				p.times, p.values = make([]int64, 0, c.Samples), make([]float64, 0, c.Samples)
			}
			p.times, p.values = append(p.times, t), append(p.values, v)
		}
		if err := m.decoder.Err(); err != nil {
			return nil, err
		}
		switch k := len(chunks) - 1; {
		case len(p.times) == 0:
		case k < 0 || begins:
			chunks = append(chunks, []*piece{p})
		default:
			chunks[k] = append(chunks[k], p)
		}
	}
	return chunks, nil
}

// choose takes the present sample of a lane.
func (m *merger) choose(l *lane) error {
	p := l.pieces[l.current]
	if m.run.piece != p {
		if err := m.endRun(); err != nil {
			return err
		}
		m.run = run{piece: p, start: len(m.times)}
	}
	m.times, m.values = append(m.times, l.time()), append(m.values, l.value())
	m.run.adjusted = m.run.adjusted || l.raised != 0
	return nil
}

// endRun writes the last run where that is no plain floats: a chunk that is chosen as a whole, or
// histograms.
func (m *merger) endRun() error {
	p, start, adjusted := m.run.piece, m.run.start, m.run.adjusted
	m.run = run{}
	if p == nil {
		return nil
	}
	chosen := m.times[start:]
	whole := len(chosen) == int(p.Samples) && !p.changed && !adjusted
	if !whole && p.floats() {
		return nil
	}
	if err := m.writeFloats(start); err != nil {
		return err
	}
	m.times, m.values = m.times[:0], m.values[:0]
	if whole {
		return m.Chunk(p.Enc, p.MinT, p.MaxT, p.bytes())
	}
	m.decoder = p.of.Decode(p.series, []selection.Chunk{p.Chunk}, math.MinInt64, math.MaxInt64, m.decoder)
	data, first, last, err := samples.Encode(p.Enc, &some{m.decoder, chosen})
	if err != nil {
		return err
	}
	return m.Chunk(p.Enc, first, last, data)
}

// writeFloats writes the first n of the samples that are chosen, which are floats.
func (m *merger) writeFloats(n int) error {
	err := m.Floats(m.times[:n], m.values[:n])
	if n == len(m.times) {
		m.times, m.values = m.times[:0], m.values[:0]
	}
	return err
}

// some are the samples of a chunk of histograms at some of its times.
type some struct {
	chunkenc.Iterator
	times []int64
}

func (s *some) Next() chunkenc.ValueType {
	for {
		v := s.Iterator.Next()
		switch {
		case v == chunkenc.ValNone || len(s.times) == 0:
			return chunkenc.ValNone
		case s.AtT() == s.times[0]:
			s.times = s.times[1:]
			return v
		}
	}
}
