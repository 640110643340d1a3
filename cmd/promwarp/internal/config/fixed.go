package config

// Fixed are the settings that take effect only after a restart, by their flags. gpu stands for
// all of its section.
var Fixed = []struct {
	Flag string
	Of   func(*Settings) any
}{
	{"gpu", func(s *Settings) any { return s.GPU }},
	{"web.listen-address", func(s *Settings) any { return s.Web.ListenAddress }},
	{"web.config.file", func(s *Settings) any { return s.Web.ConfigFile }},
	{"web.shutdown-timeout", func(s *Settings) any { return s.Web.ShutdownTimeout }},
	{"web.max-connections", func(s *Settings) any { return s.Web.MaxConnections }},
	{"web.max-header-bytes", func(s *Settings) any { return s.Web.MaxHeaderBytes }},
	{"log.level", func(s *Settings) any { return s.Log.Level }},
	{"log.format", func(s *Settings) any { return s.Log.Format }},
}
