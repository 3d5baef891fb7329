package httpapi

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// worthwhile is the length from which on a reply is compressed.
const worthwhile = 512

// gzipWriters are kept, for each has large tables.
var gzipWriters = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic("httpapi: bug: gzip level: " + err.Error())
	}
	return w
}}

// Compress answers clients that take gzip with it. Streams stay streams: what is
// flushed arrives. Short replies and those that have an encoding of their own are
// left as they are.
func Compress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !takesGzip(req.Header) {
			next.ServeHTTP(w, req)
			return
		}
		c := &compressor{ResponseWriter: w}
		defer c.end()
		next.ServeHTTP(c, req)
	})
}

// takesGzip reads Accept-Encoding: a coding may be refused by a weight of 0.
func takesGzip(h http.Header) bool {
	for _, line := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(coding, ";")
			if name = strings.TrimSpace(name); !strings.EqualFold(name, "gzip") && name != "*" {
				continue
			}
			weight, ok := strings.CutPrefix(strings.TrimSpace(params), "q=")
			if q, err := strconv.ParseFloat(weight, 64); !ok || err != nil || q > 0 {
				return true
			}
		}
	}
	return false
}

// compressor holds the head of a reply back until it knows whether to compress.
//
//	waiting ──much written, or flushed──▶ packing ──▶ ended
//	   └──end, or not to be compressed──▶ plain ──────▶ ended
type compressor struct {
	http.ResponseWriter
	code  int    // 0 until the handler told one
	held  []byte // written while waiting
	plain bool
	gz    *gzip.Writer // not nil when packing
}

// Unwrap is for http.ResponseController.
func (c *compressor) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c *compressor) WriteHeader(code int) {
	switch {
	case code < http.StatusOK: // says nothing of the reply itself
		c.ResponseWriter.WriteHeader(code)
	case c.code == 0:
		c.code = code
	}
}

// Write implements io.Writer.
func (c *compressor) Write(p []byte) (int, error) {
	if c.waiting() {
		switch {
		case !c.eligible():
			c.pass()
		case len(c.held)+len(p) < worthwhile:
			c.held = append(c.held, p...)
			return len(p), nil
		default:
			if err := c.pack(p); err != nil {
				return 0, err
			}
		}
	}
	if c.plain {
		return c.ResponseWriter.Write(p)
	}
	return c.gz.Write(p)
}

func (c *compressor) waiting() bool { return !c.plain && c.gz == nil }

// eligible says whether the reply may be compressed.
func (c *compressor) eligible() bool {
	h := c.Header()
	return h.Get("Content-Encoding") == "" && h.Get("Content-Range") == "" &&
		c.code != http.StatusNoContent && c.code != http.StatusNotModified
}

// pack begins the compressed reply; next tells its type if nobody did.
func (c *compressor) pack(next []byte) error {
	h := c.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", http.DetectContentType(append(c.held[:len(c.held):len(c.held)], next...)))
	}
	h.Set("Content-Encoding", "gzip")
	h.Del("Content-Length")
	c.head()
	c.gz = gzipWriters.Get().(*gzip.Writer)
	c.gz.Reset(c.ResponseWriter)
	_, err := c.gz.Write(c.held)
	return err
}

// pass sends what was held back as it is.
func (c *compressor) pass() {
	c.plain = true
	c.head()
	if len(c.held) > 0 {
		c.ResponseWriter.Write(c.held) //nolint:errcheck // the reader is gone when this fails
	}
}

func (c *compressor) head() {
	if c.code != 0 {
		c.ResponseWriter.WriteHeader(c.code)
	}
}

// FlushError sends what was written so far; http.ResponseController calls it.
func (c *compressor) FlushError() error {
	if c.waiting() {
		if !c.eligible() || len(c.held) == 0 {
			c.pass()
		} else if err := c.pack(nil); err != nil {
			return err
		}
	}
	if c.gz != nil {
		if err := c.gz.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (c *compressor) Flush() {
	c.FlushError() //nolint:errcheck // the reader is gone when this fails
}

// end completes the reply.
func (c *compressor) end() {
	if c.waiting() {
		c.pass()
	}
	if c.gz == nil {
		return
	}
	c.gz.Close() //nolint:errcheck // the reader is gone when this fails
	gzipWriters.Put(c.gz)
	c.gz = nil
}
