package encode

import "github.com/prometheus/prometheus/model/labels"

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
