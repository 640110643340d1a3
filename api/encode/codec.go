package encode

import v1 "github.com/prometheus/prometheus/web/api/v1"

// Codec is a v1.Codec that encodes every response as Prometheus's own
// v1.JSONCodec does.
type Codec struct{}

// ContentType implements v1.Codec.
func (Codec) ContentType() v1.MIMEType { return v1.JSONCodec{}.ContentType() }

// CanEncode implements v1.Codec.
func (Codec) CanEncode(resp *v1.Response) bool { return v1.JSONCodec{}.CanEncode(resp) }

// Encode implements v1.Codec.
func (Codec) Encode(resp *v1.Response) ([]byte, error) {
	a, err := New(resp)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return v1.JSONCodec{}.Encode(resp)
	}
	return a.Bytes(), nil
}
