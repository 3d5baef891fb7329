package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// types are the media types of the files.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".md": "text/plain; charset=utf-8", ".txt": "text/plain; charset=utf-8",
}

// file is one file with the digest of its content.
type file struct {
	media  string
	tag    string // with quotes, for the header ETag
	body   []byte
	packed func() []byte // the body by gzip
}

func newFile(name string, body []byte) *file {
	sum := sha256.Sum256(body)
	media := types[path.Ext(name)]
	if media == "" {
		media = "application/octet-stream"
	}
	return &file{media: media, tag: `"` + hex.EncodeToString(sum[:12]) + `"`, body: body,
		packed: sync.OnceValue(func() []byte { return pack(body) })}
}

// newPacked returns a file that was compressed before.
func newPacked(name string, packed []byte) (*file, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, err)
	}
	body, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, err)
	}
	f := newFile(name, body)
	f.packed = func() []byte { return packed }
	return f, nil
}

func pack(body []byte) []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		panic("ui: bug: " + err.Error())
	}
	z.Write(body) //nolint:errcheck // into memory
	z.Close()     //nolint:errcheck // into memory
	return out.Bytes()
}

// serve writes the file, or 304 if the browser has it.
func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.media)
	body, tag := f.body, f.tag
	if takesGzip(r) {
		// A strong tag belongs to one sequence of bytes (RFC 9110, section 8.8.3).
		body, tag = f.packed(), strings.TrimSuffix(f.tag, `"`)+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// takesGzip reports whether the header Accept-Encoding of the request contains gzip without a
// quality of zero.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(name, "gzip") {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(quality), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}
