package abi

// TileChunks is the number of chunks in a tile. A tile's columns lie transposed:
// row i holds sample i of each of its chunks.
const TileChunks = 32

// Tiles lays out the columns of chunks: rows[k] is the first row of tile k, which
// has as many rows as its longest chunk has samples. total counts all rows.
func Tiles(chunks []ChunkRef) (rows []uint64, total uint64) {
	for from := 0; from < len(chunks); from += TileChunks {
		rows = append(rows, total)
		most := uint32(0)
		for _, c := range chunks[from:min(from+TileChunks, len(chunks))] {
			most = max(most, c.Samples)
		}
		total += uint64(most)
	}
	return rows, total
}

// Place is the index in a column of a chunk's sample.
func Place(rows []uint64, chunk, sample int) uint64 {
	return (rows[chunk/TileChunks]+uint64(sample))*TileChunks + uint64(chunk%TileChunks)
}
