package table

import (
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// parquetCells is how many cells a row group has at most, unless one row has more. Tests lower it.
var parquetCells = 1 << 20

// cellBytes is about the memory that a cell of a row group takes: pages that wait for its end, and what
// they are made from.
const cellBytes = 16

// prepareParquet returns what writes a table as a Parquet file.
func prepareParquet(t *Table, isWide bool) (func(io.Writer) error, int64, error) {
	return t.prepare(isWide, recordFormat{mostWide: 1_000, held: parquetCells, columnBytes: 100 << 10, open: newParquet})
}

// parquetWriter writes record batches to row groups of a Parquet file: several to one where they are small.
type parquetWriter struct{ *pqarrow.FileWriter }

func newParquet(to io.Writer, schema *arrow.Schema) (recordWriter, error) {
	properties := []parquet.WriterProperty{
		parquet.WithMaxRowGroupLength(int64(max(1, parquetCells/schema.NumFields()))),
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1), parquet.WithDictionaryDefault(false),
	}
	for _, f := range schema.Fields() {
		if f.Type.ID() == arrow.DICTIONARY {
			properties = append(properties, parquet.WithDictionaryFor(f.Name, true))
		}
	}
	w, err := pqarrow.NewFileWriter(schema, to, parquet.NewWriterProperties(properties...), pqarrow.DefaultWriterProps())
	return parquetWriter{w}, err
}

// Write implements recordWriter.
func (p parquetWriter) Write(b arrow.RecordBatch) error { return p.WriteBuffered(b) }
