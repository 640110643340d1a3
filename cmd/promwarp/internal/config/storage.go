package config

import (
	"encoding"
	"strconv"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/remoteread/serve"
)

// storageSettings are those of the remote read that promwarp answers, by the names that
// their flags have in Prometheus. 0 is no limit.
type storageSettings struct {
	// ReadSampleLimit is the most samples of a query that is answered with samples.
	ReadSampleLimit int `yaml:"remote_read_sample_limit"`
	// ReadStreamSampleLimit is the most samples of a query that is answered with chunks.
	ReadStreamSampleLimit int `yaml:"remote_read_stream_sample_limit"`
	// ReadConcurrentLimit is the most requests at once.
	ReadConcurrentLimit int `yaml:"remote_read_concurrent_limit"`
	// ReadMaxBytesInFrame is where a series is continued in another frame.
	ReadMaxBytesInFrame ByteSize `yaml:"remote_read_max_bytes_in_frame"`
	// ReadMaxQueries is the most queries of a request.
	ReadMaxQueries int `yaml:"remote_read_max_queries"`
	// ReadChunks says which chunk encodings readers get.
	ReadChunks chunkEncodings `yaml:"remote_read_chunks"`
}

// chunkEncodings says which chunk encodings remote readers get.
type chunkEncodings string

// UnmarshalText implements encoding.TextUnmarshaler, for flags and YAML.
func (c *chunkEncodings) UnmarshalText(text []byte) error {
	v, err := serve.ParseChunks(string(text))
	*c = chunkEncodings(v)
	return err
}

func defaultStorage() storageSettings {
	return storageSettings{
		ReadSampleLimit:     serve.DefaultSampleLimit,
		ReadConcurrentLimit: serve.DefaultConcurrentLimit,
		ReadMaxBytesInFrame: serve.DefaultFrameBytes,
		ReadMaxQueries:      serve.DefaultMaxQueries,
		ReadChunks:          chunkEncodings(serve.Auto),
	}
}

// validate checks what the types cannot say.
func (s *storageSettings) validate() error {
	return broken(
		rule{s.ReadSampleLimit < 0, "storage.remote_read_sample_limit must not be negative; 0 sets no limit"},
		rule{s.ReadStreamSampleLimit < 0, "storage.remote_read_stream_sample_limit must not be negative; 0 sets no limit"},
		rule{s.ReadConcurrentLimit < 0, "storage.remote_read_concurrent_limit must not be negative; 0 sets no limit"},
		rule{s.ReadMaxQueries < 0, "storage.remote_read_max_queries must not be negative; 0 sets no limit"},
		rule{s.ReadMaxBytesInFrame <= 0, "storage.remote_read_max_bytes_in_frame must be more than 0; the default is 1MiB"},
	)
}

// addStorage declares the flags of the remote read that is answered.
func (f *Flags) addStorage(to flagger) {
	f.number(to, "storage.remote.read-sample-limit", "50000000", "Most samples of a query of remote read that is answered with samples; 0 sets no limit.", func(s *Settings) *int { return &s.Storage.ReadSampleLimit })
	f.number(to, "storage.remote.read-stream-sample-limit", "0", "Most samples of a query of remote read that is answered with chunks; 0 sets no limit.", func(s *Settings) *int { return &s.Storage.ReadStreamSampleLimit })
	f.number(to, "storage.remote.read-concurrent-limit", "10", "Requests of remote read that are answered at once; 0 sets no limit.", func(s *Settings) *int { return &s.Storage.ReadConcurrentLimit })
	f.parsed(to, "storage.remote.read-max-bytes-in-frame", "1MiB", "Size beyond which a series is continued in another frame of a streamed answer.", func(s *Settings) encoding.TextUnmarshaler { return &s.Storage.ReadMaxBytesInFrame })
	f.number(to, "storage.remote.read-max-queries", "1000", "Most queries of one request of remote read; 0 sets no limit.", func(s *Settings) *int { return &s.Storage.ReadMaxQueries })
	f.parsed(to, "storage.remote.read-chunks", "auto", "Chunk encodings that remote readers get which do not say: as-is sends what is stored, xor what everybody knows, auto as-is to those known to understand it.", func(s *Settings) encoding.TextUnmarshaler { return &s.Storage.ReadChunks })
}

// values lists the settings by the names of their flags.
func (s *storageSettings) values() map[string]string {
	return map[string]string{
		"storage.remote.read-sample-limit":        strconv.Itoa(s.ReadSampleLimit),
		"storage.remote.read-stream-sample-limit": strconv.Itoa(s.ReadStreamSampleLimit),
		"storage.remote.read-concurrent-limit":    strconv.Itoa(s.ReadConcurrentLimit),
		"storage.remote.read-max-bytes-in-frame":  s.ReadMaxBytesInFrame.String(),
		"storage.remote.read-max-queries":         strconv.Itoa(s.ReadMaxQueries),
		"storage.remote.read-chunks":              string(s.ReadChunks),
	}
}

// Apply gives the settings to the doors, where 0 is a default instead of no limit.
func (s *storageSettings) Apply(o *api.Options) {
	limit := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	o.ReadSamples = limit(s.ReadSampleLimit)
	o.ReadStreamSamples = int64(s.ReadStreamSampleLimit)
	o.ReadFrameBytes = int(s.ReadMaxBytesInFrame)
	o.ReadQueries = limit(s.ReadMaxQueries)
	o.ReadChunks = serve.Chunks(s.ReadChunks)
}
