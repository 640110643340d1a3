package answer

import (
	"encoding/binary"
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

// is returns an error unless the field, of a message in where, has a type.
func (f *Field) is(typ protowire.Type, where string) error {
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

// messages goes through the fields up to number last, which are all of bytes, and leaves others out.
func messages(b []byte, where string, last protowire.Number) iter.Seq2[Field, error] {
	return func(yield func(Field, error) bool) {
		for f, err := range Fields(b, where) {
			if err == nil && f.Num > last {
				continue
			}
			if err == nil {
				err = f.is(protowire.BytesType, where)
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// firstField reads the field that b starts with, a message in where, n bytes long.
func firstField(b []byte, where string) (f Field, n int, err error) {
	// Most have a number of one byte, and a varint or a length of few bytes.
	if b[0] >= 1<<3 && b[0] < 0x80 {
		f.Num, f.Type = protowire.Number(b[0]>>3), protowire.Type(b[0]&7)
		v, size := binary.Uvarint(b[1:])
		switch {
		case size <= 0:
		case f.Type == protowire.VarintType:
			f.Value = v
			return f, 1 + size, nil
		case f.Type == protowire.BytesType && v <= uint64(len(b)-1-size):
			n = 1 + size + int(v)
			f.Bytes = b[1+size : n]
			return f, n, nil
		}
	}
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
