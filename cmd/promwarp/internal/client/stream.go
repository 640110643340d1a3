package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/promwarp/promwarp/engine/compare"
)

// Stream posts a form and has read consume the data of the answer as it comes, so that no more of it
// than a buffer is in memory. It returns what the answer says beside its data. Of an answer of another media
// type than JSON all is data.
func (c *Client) Stream(ctx context.Context, path string, form url.Values, kind string, read func(data io.Reader) error) (compare.Reply, error) {
	stop := c.waiting()
	resp, err := c.send(ctx, http.MethodPost, path, form, kind)
	stop()
	if err != nil {
		return compare.Reply{}, err
	}
	defer resp.Body.Close()
	if kind != JSON && mediaType(resp) == kind && resp.StatusCode == http.StatusOK {
		if err := read(resp.Body); err != nil {
			return compare.Reply{}, c.failed(ctx, err)
		}
		return compare.Reply{}, nil
	}
	body := bufio.NewReaderSize(resp.Body, 64<<10)
	head, _ := body.Peek(mostHead)
	before, _, found := bytes.Cut(head, dataKey)
	if !found || kind != JSON || resp.StatusCode != http.StatusOK { // an error, or the data comes late
		whole, err := io.ReadAll(body)
		if err != nil {
			return compare.Reply{}, c.failed(ctx, err)
		}
		r, err := c.parse(path, resp, whole)
		switch {
		case err != nil:
			return r, err
		case kind != JSON:
			return r, fmt.Errorf("%s answers %s with %s in place of %s; ask a promwarp", c, path, mediaType(resp), kind)
		}
		return r, read(bytes.NewReader(r.Data))
	}
	rest := append(bytes.Clone(before), `"data":null`...)
	_, _ = body.Discard(len(before) + len(dataKey)) // which was looked at
	data := value{from: body}
	if err := read(&data); err != nil && data.failure == nil {
		return compare.Reply{}, err
	}
	_, _ = io.Copy(io.Discard, &data) // what read left
	behind, err := io.ReadAll(body)
	if err := cmp.Or(data.failure, err); err != nil {
		return compare.Reply{}, c.failed(ctx, err)
	}
	return c.parse(path, resp, append(rest, behind...))
}

// JSON is the media type of Prometheus's API.
const JSON = "application/json"

// dataKey begins the data of an answer, which servers write within its first mostHead bytes.
var dataKey = []byte(`"data":`)

const mostHead = 4 << 10

// value is an object or a list of JSON, read to its end and no further.
type value struct {
	from            *bufio.Reader
	depth           int
	quoted, escaped bool
	ended           bool
	failure         error // of what it is read from
}

// Read implements io.Reader.
func (v *value) Read(p []byte) (int, error) {
	if v.ended {
		return 0, io.EOF
	}
	if _, err := v.from.Peek(1); err != nil {
		v.failure = err
		if err == io.EOF {
			v.failure = io.ErrUnexpectedEOF
		}
		return 0, v.failure
	}
	b, _ := v.from.Peek(min(len(p), v.from.Buffered()))
	n := copy(p, b[:v.length(b)])
	_, _ = v.from.Discard(n) // which was looked at
	return n, nil
}

// length is the number of bytes of b that are the value's.
func (v *value) length(b []byte) int {
	depth, quoted, escaped := v.depth, v.quoted, v.escaped // in registers
	for i, c := range b {
		switch {
		case quoted:
			quoted = c != '"' || escaped
			escaped = c == '\\' && !escaped
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth <= 0 {
				v.ended = true
				return i + 1
			}
		}
	}
	v.depth, v.quoted, v.escaped = depth, quoted, escaped
	return len(b)
}
