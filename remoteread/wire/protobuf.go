// Package wire reads the parts that answers of remote read consist of, by hand and where they
// lie: frames, fields of protobuf messages, labels. What is wrong with them it says in errors of
// its own, by which a client decides what to do.
//
// Start with FrameReader and NextField.
package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// NextField reads one field of b, a message in where, n bytes long. The fields up to
// number last are all of bytes, which v is; of others v is nil.
func NextField(b []byte, where string, last protowire.Number) (num protowire.Number, v []byte, n int, err error) {
	// Most have a number and a length of one byte each.
	if len(b) >= 2 && b[0] < 0x80 && b[0]&7 == byte(protowire.BytesType) && b[1] < 0x80 {
		num, n = protowire.Number(b[0]>>3), 2+int(b[1])
		if 0 < num && num <= last && n <= len(b) {
			return num, b[2:n], n, nil
		}
	}
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, nil, 0, Malformed(where, n)
	}
	if num > last {
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		if m < 0 {
			return 0, nil, 0, Malformed(where, m)
		}
		return num, nil, n + m, nil
	}
	if typ != protowire.BytesType {
		return 0, nil, 0, WrongType(where, num, typ)
	}
	v, m := protowire.ConsumeBytes(b[n:])
	if m < 0 {
		return 0, nil, 0, Malformed(where, m)
	}
	return num, v, n + m, nil
}

func Malformed(where string, n int) error {
	return fmt.Errorf("the answer is not valid protobuf: in %s: %w", where, protowire.ParseError(n))
}

func WrongType(where string, num protowire.Number, typ protowire.Type) error {
	return fmt.Errorf("the answer is not valid protobuf: field %d of %s has wire type %d", num, where, typ)
}
