package encode

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/jsonutil"

	"github.com/promwarp/promwarp/plan"
)

// The work that series and histograms are, in points.
const (
	seriesWeight    = 8
	histogramWeight = 64
)

// table is the series of a matrix, by their place.
type table interface {
	// series returns the labels of a series, how many floats it has, and its histograms.
	series(i int) (ls labels.Labels, floats int, histograms []promql.HPoint)
	// appendFloats appends floats from to to, the end excluded, which there are, with commas between
	// them and before the first one, unless that is the series' first.
	appendFloats(b []byte, i, from, to int) []byte
}

// points are the series of a promql.Matrix, whose points have times of their own.
type points promql.Matrix

func (p points) series(i int) (labels.Labels, int, []promql.HPoint) {
	return p[i].Metric, len(p[i].Floats), p[i].Histograms
}

func (p points) appendFloats(b []byte, i, from, to int) []byte {
	for k := from; k < to; k++ {
		f := &p[i].Floats[k]
		b = appendTime(b, k, f.T)
		b = append(AppendFloat(b, f.F), `"]`...)
	}
	return b
}

// appendTime appends what comes before the value of the point in a place.
func appendTime(b []byte, place int, ms int64) []byte {
	if place > 0 {
		b = append(b, ',')
	}
	return append(appendTimestamp(append(b, '['), ms), `,"`...)
}

// steps are the series of an executor's matrix, whose points are at the steps of one grid.
type steps struct {
	rows []plan.Row
	text []byte // what comes before the value of each step, with the comma
	ends []int  // where the text of each step begins, and the last one ends
}

func newSteps(m *plan.Matrix) *steps {
	s := &steps{rows: m.Rows}
	if len(m.Rows) == 0 {
		return s
	}
	s.ends, s.text = append(make([]int, 0, m.Grid.Steps+1), 0), make([]byte, 0, 16*m.Grid.Steps)
	for k := range m.Grid.Steps {
		s.text = appendTime(s.text, 1, m.Grid.At(k))
		s.ends = append(s.ends, len(s.text))
	}
	return s
}

func (s *steps) series(i int) (labels.Labels, int, []promql.HPoint) {
	return s.rows[i].Labels, len(s.rows[i].Values), nil
}

func (s *steps) appendFloats(b []byte, i, from, to int) []byte {
	row, start := &s.rows[i], 0 // of the run among the values
	// The text of the value before: many series stay the same for a while.
	var last []byte
	var lastBits uint64
	for _, run := range row.Runs {
		end := start + int(run.Len)
		for k := max(from, start); k < min(to, end); k++ {
			step := int(run.First) + k - start
			time := s.text[s.ends[step]:s.ends[step+1]]
			if k == 0 {
				time = time[len(","):]
			}
			b = append(b, time...)
			if bits := math.Float64bits(row.Values[k]); last == nil || bits != lastBits {
				at := len(b)
				b = append(AppendFloat(b, row.Values[k]), `"]`...)
				last, lastBits = b[at:], bits
			} else {
				b = append(b, last...)
			}
		}
		start = end
	}
	return b
}

// pointsOf are the samples of a vector as series of one point each.
func pointsOf(v promql.Vector) points {
	p, floats := make(points, len(v)), make([]promql.FPoint, len(v))
	for i, s := range v {
		p[i].Metric = s.Metric
		if s.H != nil {
			p[i].Histograms = []promql.HPoint{{T: s.T, H: s.H}}
			continue
		}
		floats[i] = promql.FPoint{T: s.T, F: s.F}
		p[i].Floats = floats[i : i+1]
	}
	return p
}

// matrix encodes the series of a matrix or a vector. The points of a row are its floats,
// then its histograms.
type matrix struct {
	table
	size   int  // series
	single bool // each has one point, which is no list
}

// next returns the end of a piece of about the given weight that starts at c, and the piece's weight:
// about how many points' work it is.
func (m matrix) next(c cursor, weight int) (cursor, int) {
	w := 0
	for c.row < m.size && w < weight {
		_, nf, hs := m.series(c.row)
		nh := len(hs)
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

// append encodes the rows between two cursors.
func (m matrix) append(b []byte, from, to cursor) []byte {
	values, histograms, closing := `,"values":[`, `,"histograms":[`, "]"
	if m.single {
		values, histograms, closing = `,"value":`, `,"histogram":`, ""
	}
	for c := from; c != to; c = (cursor{row: c.row + 1}) {
		ls, nf, hs := m.series(c.row)
		k, end := c.point, nf+len(hs)
		if c.row == to.row {
			end = to.point
		}
		if k == 0 {
			if c.row > 0 {
				b = append(b, ',')
			}
			b = AppendLabels(append(b, `{"metric":`...), ls)
			if nf > 0 {
				b = append(b, values...)
			}
		}
		if k < nf {
			stop := min(end, nf)
			b = m.appendFloats(b, c.row, k, stop)
			if k = stop; k == nf {
				b = append(b, closing...)
			}
		}
		if h := k - nf; k < end {
			if h == 0 {
				b = append(b, histograms...)
			} else {
				b = append(b, ',')
			}
			b = appendHistograms(b, hs[h:end-nf])
			if end-nf == len(hs) {
				b = append(b, closing...)
			}
		}
		if c.row == to.row {
			return b
		}
		b = append(b, '}')
	}
	return b
}

// appendHistograms appends histograms with their times, `[t,{…}],[t,{…}]`.
func appendHistograms(b []byte, ps []promql.HPoint) []byte {
	s := JSON.BorrowStream(nil)
	defer JSON.ReturnStream(s)
	for i, p := range ps {
		if i > 0 {
			b = append(b, ',')
		}
		s.SetBuffer(s.Buffer()[:0])
		jsonutil.MarshalHistogram(p.H, s)
		b = append(appendTimestamp(append(b, '['), p.T), ',')
		b = append(append(b, s.Buffer()...), ']')
	}
	return b
}
