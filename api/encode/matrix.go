package encode

import "github.com/prometheus/prometheus/promql"

// The work that series and histograms are, in points.
const (
	seriesWeight    = 8
	histogramWeight = 64
)

// matrix encodes the series of a matrix. The points of a row are its floats,
// then its histograms.
type matrix struct {
	series     promql.Matrix
	histograms bool
	grid       grid
}

func newMatrix(m promql.Matrix) *matrix {
	r := &matrix{series: m, grid: newGrid(m)}
	for i := range m {
		r.histograms = r.histograms || len(m[i].Histograms) > 0
	}
	return r
}

func (m *matrix) next(c cursor, weight int) (cursor, int) {
	w := 0
	for c.row < len(m.series) && w < weight {
		s := &m.series[c.row]
		nf, nh := len(s.Floats), len(s.Histograms)
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

func (m *matrix) append(b []byte, from, to cursor) []byte {
	for c := from; c != to; c = (cursor{row: c.row + 1}) {
		s := &m.series[c.row]
		end := len(s.Floats) + len(s.Histograms)
		if c.row < to.row {
			b = m.appendSeries(b, c, end)
			b = append(b, '}')
			continue
		}
		return m.appendSeries(b, c, to.point)
	}
	return b
}

// appendSeries appends a series from a cursor to its point end, without the
// series' closing brace.
func (m *matrix) appendSeries(b []byte, c cursor, end int) []byte {
	s := &m.series[c.row]
	k := c.point
	if k == 0 {
		if c.row > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"metric":`...)
		b = appendLabels(b, s.Metric)
	}
	if nf := len(s.Floats); k < nf {
		if k == 0 {
			b = append(b, `,"values":[`...)
		}
		to := min(end, nf)
		b = appendPoints(b, s.Floats[k:to], k == 0, &m.grid)
		if k = to; k == nf {
			b = append(b, `"]]`...)
		}
	}
	if h := k - len(s.Floats); k < end {
		if h == 0 {
			b = append(b, `,"histograms":[`...)
		} else {
			b = append(b, ',')
		}
		to := end - len(s.Floats)
		b = appendHistograms(b, s.Histograms[h:to])
		if to == len(s.Histograms) {
			b = append(b, ']')
		}
	}
	return b
}
