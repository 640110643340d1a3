package encode

import (
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
)

// AppendLabels appends a series' labels as an object.
func AppendLabels(b []byte, ls labels.Labels) []byte {
	b = append(b, '{')
	first := true
	ls.Range(func(l labels.Label) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = AppendString(b, l.Name)
		b = append(b, ':')
		b = AppendString(b, l.Value)
	})
	return append(b, '}')
}

const hexDigits = "0123456789abcdef"

// AppendString appends a string as Prometheus's API writes the names and values
// of labels: everything above the control characters stays as it is, HTML's
// characters, line separators and invalid UTF-8 included.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// AppendFloat appends a value as Prometheus writes it: strconv's shortest text, without an exponent
// from 1e-6 to below 1e21.
func AppendFloat(b []byte, v float64) []byte {
	// Below 2^53 the shortest text of an integer is all of its digits.
	if i := int64(v); float64(i) == v && i > -1<<53 && i < 1<<53 && (i != 0 || !math.Signbit(v)) {
		return strconv.AppendInt(b, i, 10)
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, 64)
}

// appendTimestamp appends a time in ms as seconds, with three decimals unless
// they are all zero.
func appendTimestamp(b []byte, ms int64) []byte {
	if ms < 0 {
		b = append(b, '-')
		ms = -ms
	}
	b = strconv.AppendInt(b, ms/1000, 10)
	f := ms % 1000
	switch {
	case f == 0:
	case f > 0:
		b = append(b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
	default:
		// The earliest time has no opposite. Prometheus writes no number here
		// either, but this.
		b = append(b, '.', '0', '0')
		b = strconv.AppendInt(b, f, 10)
	}
	return b
}
