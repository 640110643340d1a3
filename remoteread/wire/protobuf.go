// Package wire reads the parts that answers of remote read consist of, by hand and where they
// lie: frames, fields of protobuf messages, labels. What is wrong with them it says in errors of
// its own, by which a client decides what to do.
//
// Start with FrameReader and Fields.
package wire

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field is a field of a message.
type Field struct {
	Num   protowire.Number
	Type  protowire.Type
	Bytes []byte // of a field of bytes
	Value uint64 // of a varint or a fixed 64 bits
}

// Is returns an error unless the field, of a message in where, has a type.
func (f *Field) Is(typ protowire.Type, where string) error {
	if f.Type == typ {
		return nil
	}
	return fmt.Errorf("the answer is not valid protobuf: field %d of %s has wire type %d", f.Num, where, f.Type)
}

// Fields goes through the fields of b, a message in where. It ends with what is wrong.
func Fields(b []byte, where string) iter.Seq2[Field, error] {
	return func(yield func(Field, error) bool) {
		for len(b) > 0 {
			f, n, err := firstField(b, where)
			if !yield(f, err) || err != nil {
				return
			}
			b = b[n:]
		}
	}
}

// firstField reads the field that b starts with, n bytes long.
func firstField(b []byte, where string) (f Field, n int, err error) {
	var tag int
	if f.Num, f.Type, tag = protowire.ConsumeTag(b); tag >= 0 {
		switch b := b[tag:]; f.Type {
		case protowire.BytesType:
			f.Bytes, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			f.Value, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.Value, n = protowire.ConsumeFixed64(b)
		default:
			n = protowire.ConsumeFieldValue(f.Num, f.Type, b)
		}
	}
	if failed := min(tag, n); failed < 0 {
		return f, 0, fmt.Errorf("the answer is not valid protobuf: in %s: %w", where, protowire.ParseError(failed))
	}
	return f, tag + n, nil
}

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
	f, n, err := firstField(b, where)
	switch {
	case err != nil:
		return 0, nil, 0, err
	case f.Num > last:
		return f.Num, nil, n, nil
	}
	return f.Num, f.Bytes, n, f.Is(protowire.BytesType, where)
}
