package web

import (
	"compress/gzip"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// Compress compresses replies by gzip for clients that accept it (RFC 9110, section 12.5.3).
// Flushed parts of a stream are sent at once. Short replies, replies with an encoding or a
// range, and compressed media types are sent as they are.
func Compress(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.AcceptWildcards(true), gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		panic("web: bug: options of gzhttp: " + err.Error())
	}
	return wrap(next)
}
