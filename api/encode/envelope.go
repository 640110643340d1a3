package encode

import (
	"bytes"
	"fmt"

	"github.com/prometheus/prometheus/promql"
	v1 "github.com/prometheus/prometheus/web/api/v1"
)

// noRows is how Prometheus's encoder writes a result without rows. Only the
// status and the result's type come before it.
var noRows = []byte(`"result":[]`)

// envelope has Prometheus's encoder write the response with an empty result in
// the place of its own, and returns what it writes before and after the rows.
func envelope(resp *v1.Response, d *v1.QueryData) (head, tail []byte, err error) {
	without := *d
	without.Result = promql.Matrix{}
	around := *resp
	around.Data = &without
	b, err := v1.JSONCodec{}.Encode(&around)
	if err != nil {
		return nil, nil, err
	}
	i := bytes.Index(b, noRows)
	if i < 0 {
		return nil, nil, fmt.Errorf("encode: no %s in a response of Prometheus's encoder", noRows)
	}
	i += len(noRows) - 1
	return b[:i:i], b[i:], nil
}
