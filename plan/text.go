package plan

import "fmt"

// Text is an expression as Prometheus prints it: a string, or a fmt.Stringer, such as the
// expression itself, that is rendered when it is asked for. Few queries ask for it, and the
// texts of a deep tree are together far longer than the query.
type Text any

func render(t Text) string {
	switch t := t.(type) {
	case string:
		return t
	case fmt.Stringer:
		return t.String()
	}
	return ""
}
