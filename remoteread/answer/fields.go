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

// Fields goes through the fields of b, a message in where. It ends with what is wrong. A field is
// there until the next is asked for: a copy of it would wait until all of it has been written.
func Fields(b []byte, where string) iter.Seq2[*Field, error] {
	return func(yield func(*Field, error) bool) {
		var f Field
		for len(b) > 0 {
			n, err := f.read(b, where)
			if !yield(&f, err) || err != nil {
				return
			}
			b = b[n:]
		}
	}
}

// typed goes through the fields that there are types for, by number, and leaves others out. One of
// another type is wrong.
func typed(b []byte, where string, types ...protowire.Type) iter.Seq2[*Field, error] {
	return func(yield func(*Field, error) bool) {
		for f, err := range Fields(b, where) {
			switch {
			case err != nil:
			case int(f.Num) > len(types):
				continue
			case f.Type != types[f.Num-1]:
				err = fmt.Errorf("the answer is not valid protobuf: field %d of %s has wire type %d", f.Num, where, f.Type)
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// read reads the field that b starts with, a message in where, n bytes long.
func (f *Field) read(b []byte, where string) (n int, err error) {
	*f = Field{}
	// Most have a number of one byte, and a varint or a length of few bytes.
	if b[0] >= 1<<3 && b[0] < 0x80 {
		f.Num, f.Type = protowire.Number(b[0]>>3), protowire.Type(b[0]&7)
		v, size := binary.Uvarint(b[1:])
		switch {
		case size <= 0:
		case f.Type == protowire.VarintType:
			f.Value = v
			return 1 + size, nil
		case f.Type == protowire.BytesType && v <= uint64(len(b)-1-size):
			n = 1 + size + int(v)
			f.Bytes = b[1+size : n]
			return n, nil
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
		return 0, fmt.Errorf("the answer is not valid protobuf: in %s: %w", where, protowire.ParseError(failed))
	}
	return tag + n, nil
}
