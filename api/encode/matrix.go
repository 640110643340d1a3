package encode

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// The work that series and histograms are, in points.
const (
	seriesWeight    = 8
	histogramWeight = 64
)

// table is the series of a matrix, by their place.
type table interface {
	labels(i int) labels.Labels
	floats(i int) int // how many there are
	// appendFloats appends floats from to to, the end excluded, which there are, without
	// the `"]` that closes the last one, so that those that follow can be appended.
	appendFloats(b []byte, i, from, to int) []byte
	histograms(i int) []promql.HPoint
}

// matrix encodes the series of a matrix. The points of a row are its floats,
// then its histograms.
type matrix struct {
	table
	size int // series
}

func (m matrix) hasHistograms() bool {
	for i := range m.size {
		if len(m.histograms(i)) > 0 {
			return true
		}
	}
	return false
}

func (m matrix) next(c cursor, weight int) (cursor, int) {
	w := 0
	for c.row < m.size && w < weight {
		nf, nh := m.floats(c.row), len(m.histograms(c.row))
		if c.point == 0 {
			w += seriesWeight
		}
		if k := nf - c.point; k > 0 {
			k = min(k, max(1, weight-w))
			c.point += k
			w += k
		}
		if k := nf + nh - c.point; c.point >= nf && k > 0 {
			k = min(k, max(1, (weight-w)/histogramWeight))
			c.point += k
			w += k * histogramWeight
		}
		if c.point == nf+nh {
			c = cursor{row: c.row + 1}
		}
	}
	return c, w
}

func (m matrix) append(b []byte, from, to cursor) []byte {
	for c := from; c != to; c = (cursor{row: c.row + 1}) {
		if c.row < to.row {
			b = m.appendSeries(b, c, m.floats(c.row)+len(m.histograms(c.row)))
			b = append(b, '}')
			continue
		}
		return m.appendSeries(b, c, to.point)
	}
	return b
}

// appendSeries appends a series from a cursor to its point end, without the
// series' closing brace.
func (m matrix) appendSeries(b []byte, c cursor, end int) []byte {
	k, nf, hs := c.point, m.floats(c.row), m.histograms(c.row)
	if k == 0 {
		if c.row > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"metric":`...)
		b = AppendLabels(b, m.labels(c.row))
	}
	if k < nf {
		if k == 0 {
			b = append(b, `,"values":[`...)
		}
		if to := min(end, nf); to > k {
			b = m.appendFloats(b, c.row, k, to)
			k = to
		}
		if k == nf {
			b = append(b, `"]]`...)
		}
	}
	if h := k - nf; k < end {
		if h == 0 {
			b = append(b, `,"histograms":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendHistograms(b, hs[h:end-nf])
		if end-nf == len(hs) {
			b = append(b, ']')
		}
	}
	return b
}
