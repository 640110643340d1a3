package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/crypto/scrypt"
)

// Identity names what samples of the source depend on: where they are read from
// and as whom, but not how. Samples cached on disk are of one identity. Tokens
// may be all that tells one tenant from another, so they are part of it; it can
// not be guessed back.
func (s Source) Identity() (string, error) {
	if s.Remote == nil {
		return filepath.Abs(s.Dir)
	}
	c := &s.Remote.HTTPClientConfig
	parts := []any{s.Remote.URL.String(), s.Remote.Headers, s.Remote.RequiredMatchers, string(c.BearerToken), c.BearerTokenFile}
	if a := c.BasicAuth; a != nil {
		parts = append(parts, "basic", a.Username, a.UsernameFile, a.UsernameRef)
	}
	if a := c.Authorization; a != nil {
		parts = append(parts, "authorization", a.Type, string(a.Credentials), a.CredentialsFile, a.CredentialsRef)
	}
	if o := c.OAuth2; o != nil {
		parts = append(parts, "oauth2", o.ClientID, o.Scopes, o.EndpointParams)
	}
	if c.HTTPHeaders != nil {
		for _, name := range slices.Sorted(maps.Keys(c.HTTPHeaders.Headers)) {
			h := c.HTTPHeaders.Headers[name]
			header := []any{name, h.Values, h.Files}
			for _, secret := range h.Secrets {
				header = append(header, string(secret))
			}
			parts = append(parts, header)
		}
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return "", err
	}
	hash, err := scrypt.Key(text, []byte("promwarp cache.path"), 1<<14, 8, 1, 32)
	return fmt.Sprintf("%x", hash), err
}
