package remoteread

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/prometheus/config"

	"github.com/promwarp/promwarp/remoteread/answer"
)

// secrets makes texts of a store fit for messages.
type secrets struct{ replacer *strings.Replacer }

// sensitiveHeader matches names of headers that hold credentials. Others, such
// as a tenant's name, help in a message.
var sensitiveHeader = regexp.MustCompile("(?i)auth|key|token|secret|password|cookie")

// secretsOf collects the secrets of a configuration that a store, or a page that shows the request, may
// repeat.
func secretsOf(cfg *config.RemoteReadConfig) *secrets {
	var found []string
	pair := func(user, password string) {
		found = append(found, password, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	if u := cfg.URL.User; u != nil {
		password, _ := u.Password()
		pair(u.Username(), password)
		found = append(found, url.QueryEscape(password), url.PathEscape(password))
	}
	for _, vs := range cfg.URL.Query() {
		found = append(found, vs...)
	}
	for name, v := range cfg.Headers {
		if sensitiveHeader.MatchString(name) {
			found = append(found, v)
		}
	}
	h := cfg.HTTPClientConfig
	found = append(found, string(h.BearerToken))
	if h.BasicAuth != nil {
		pair(h.BasicAuth.Username, string(h.BasicAuth.Password))
	}
	if h.Authorization != nil {
		found = append(found, string(h.Authorization.Credentials))
	}
	if h.OAuth2 != nil {
		found = append(found, string(h.OAuth2.ClientSecret))
	}
	if h.HTTPHeaders != nil {
		for _, v := range h.HTTPHeaders.Headers {
			for _, s := range v.Secrets {
				found = append(found, string(s))
			}
		}
	}
	// Short strings would hit by chance, and taking them out would spell them.
	found = slices.DeleteFunc(found, func(s string) bool { return len(s) < 4 })
	// The replacer takes the first that fits, so longer ones go first.
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, s := range slices.Compact(found) {
		pairs = append(pairs, s, "<secret>")
	}
	return &secrets{strings.NewReplacer(pairs...)}
}

// line is the first line of b that is not empty, without secrets and at most
// answer.MaxLine bytes long. A page of HTML is only said to be one: its first line
// never says anything.
func (r *secrets) line(b []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(b), "�"))
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		text = strings.TrimSpace(text[:i])
	}
	if l := strings.ToLower(text); strings.HasPrefix(l, "<!doctype") || strings.HasPrefix(l, "<html") {
		return "a page of HTML"
	}
	text = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, r.replacer.Replace(text))
	if len(text) <= answer.MaxLine {
		return text
	}
	text = text[:answer.MaxLine-len("…")]
	for len(text) > 0 && !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}
