// Package leafpb has the messages of Thanos's gRPC services, and how they are encoded.
package leafpb

import "github.com/gogo/protobuf/proto"

// Codec is an encoding.Codec of gRPC. It encodes messages by their own methods, which gogo/protobuf generates.
type Codec struct{}

// Name implements encoding.Codec.
func (Codec) Name() string { return "proto" }

// Marshal implements encoding.Codec.
func (Codec) Marshal(v any) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }

// Unmarshal implements encoding.Codec.
func (Codec) Unmarshal(data []byte, v any) error { return proto.Unmarshal(data, v.(proto.Message)) }
