package encode

import "strconv"

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
