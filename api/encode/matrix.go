package encode

import (
	"encoding/binary"
	"math"
	"slices"

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
	// text is what comes between the values of two points, with the time of the second: `"],[1435781451.781,"`.
	text []byte
	ends []int // where the text of each step begins, and the last one ends
}

// longestTime is how many bytes of text are copied for each step, which is as many as it has or more.
const longestTime = 32

func newSteps(m *plan.Matrix) *steps {
	s := &steps{rows: m.Rows}
	if len(m.Rows) == 0 {
		return s
	}
	s.ends, s.text = append(make([]int, 0, m.Grid.Steps+1), 0), make([]byte, 0, 18*m.Grid.Steps+longestTime)
	for k := range m.Grid.Steps {
		s.text = appendTime(append(s.text, `"]`...), 1, m.Grid.At(k))
		s.ends = append(s.ends, len(s.text))
	}
	s.text = append(s.text, make([]byte, longestTime)...)
	return s
}

func (s *steps) series(i int) (labels.Labels, int, []promql.HPoint) {
	return s.rows[i].Labels, len(s.rows[i].Values), nil
}

func (s *steps) appendFloats(b []byte, i, from, to int) []byte {
	row, start := &s.rows[i], 0 // of the run among the values
	b = slices.Grow(b, (to-from)*(longestTime+longestFloat)+len(`"]`))
	skip := len(`"],`) // of the first text
	if from > 0 {
		skip = len(`"]`)
	}
	for _, run := range row.Runs {
		first, end := max(from, start), min(to, start+int(run.Len))
		if first < end {
			b = s.appendRun(b, int(run.First)+first-start, row.Values[first:end], skip)
			skip = 0
		}
		start += int(run.Len)
	}
	return append(b, `"]`...)
}

// appendRun appends values from a step on to b, which has room for them, without the first bytes of the
// first text, and without the end of the last point.
func (s *steps) appendRun(b []byte, step int, values []float64, skip int) []byte {
	ends := s.ends[step:][:len(values)+1]
	at, text, length := len(b), ends[0]+skip, 0
	b = b[:cap(b)]
	for k, v := range values {
		copyTime((*[longestTime]byte)(b[at:at+longestTime]), (*[longestTime]byte)(s.text[text:text+longestTime]))
		last := at - length
		at += ends[k+1] - text
		text = ends[k+1]
		if k > 0 && math.Float64bits(v) == math.Float64bits(values[k-1]) { // many series stay the same for a while
			copy(b[at:], b[last:last+length])
		} else {
			length = putFloat((*[longestFloat]byte)(b[at:at+longestFloat]), v)
		}
		at += length
	}
	return b[:at]
}

// copyTime copies without a call.
func copyTime(to, from *[longestTime]byte) {
	binary.LittleEndian.PutUint64(to[:], binary.LittleEndian.Uint64(from[:]))
	binary.LittleEndian.PutUint64(to[8:], binary.LittleEndian.Uint64(from[8:]))
	binary.LittleEndian.PutUint64(to[16:], binary.LittleEndian.Uint64(from[16:]))
	binary.LittleEndian.PutUint64(to[24:], binary.LittleEndian.Uint64(from[24:]))
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
