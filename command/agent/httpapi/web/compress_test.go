package web_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
)

var large = strings.Repeat("a line of text\n", 1000)

func TestCompress(t *testing.T) {
	reply := func(code int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if k, v, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(k, v)
			}
			if code != 0 {
				w.WriteHeader(code)
			}
			io.WriteString(w, body) //nolint:errcheck // into memory
		}
	}
	for _, c := range []struct {
		name, accept string
		handler      http.HandlerFunc
		code         int
		encoding     string
		body         string
	}{
		{"large", "gzip", reply(0, "", large), 200, "gzip", large},
		{"among others", "br;q=1.0, GZIP;q=0.5", reply(201, "", large), 201, "gzip", large},
		{"any", "*", reply(0, "", large), 200, "gzip", large},
		{"an error", "gzip", reply(404, "Content-Type: text/plain", large), 404, "gzip", large},
		{"short", "gzip", reply(500, "", "no"), 500, "", "no"},
		{"nothing", "gzip", reply(404, "", ""), 404, "", ""},
		{"no content", "gzip", reply(204, "", ""), 204, "", ""},
		{"not asked", "", reply(0, "", large), 200, "", large},
		{"refused", "gzip;q=0", reply(0, "", large), 200, "", large},
		{"its own", "gzip", reply(0, "Content-Encoding: br", large), 200, "br", large},
		{"an archive", "gzip", reply(0, "Content-Type: application/gzip", large), 200, "", large},
		{"known length", "gzip", reply(0, "Content-Length: 15000", large), 200, "gzip", large},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := httptest.NewRequest("GET", "/", nil)
			req.Header.Set("Accept-Encoding", c.accept)
			rec := httptest.NewRecorder()
			web.Compress(c.handler).ServeHTTP(rec, req)
			resp := rec.Result()
			if got := resp.Header.Get("Vary"); got != "Accept-Encoding" {
				t.Errorf("Vary = %q, want Accept-Encoding", got)
			}
			if got := resp.Header.Get("Content-Encoding"); resp.StatusCode != c.code || got != c.encoding {
				t.Errorf("status %d with encoding %q, want %d with %q", resp.StatusCode, got, c.code, c.encoding)
			}
			body := rec.Body.Bytes()
			if c.encoding == "gzip" {
				if resp.Header.Get("Content-Length") != "" || resp.Header.Get("Content-Type") == "" {
					t.Errorf("headers of a compressed reply: %v", resp.Header)
				}
				body = unpack(t, bytes.NewReader(body))
			}
			if string(body) != c.body {
				t.Errorf("body of %d bytes, want %d", len(body), len(c.body))
			}
		})
	}
}

func unpack(t *testing.T, in io.Reader) []byte {
	t.Helper()
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A reply to HEAD has the headers of the uncompressed one.
func TestCompressHead(t *testing.T) {
	req := httptest.NewRequest("HEAD", "/", nil)
	req.Header.Set("Accept-Encoding", "gzip")
	rec := httptest.NewRecorder()
	web.Compress(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "15000")
	})).ServeHTTP(rec, req)
	if h := rec.Result().Header; h.Get("Content-Length") != "15000" || h.Get("Content-Encoding") != "" {
		t.Errorf("headers = %v, want those of the uncompressed reply", h)
	}
}

// Flushed data of a stream arrives before the stream continues.
func TestCompressedStream(t *testing.T) {
	goOn := make(chan struct{})
	srv := httptest.NewServer(web.Compress(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range []string{"one\n", "two\n"} {
			io.WriteString(w, part) //nolint:errcheck // the test reads
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-goOn
		}
	})))
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one\n", "two\n"} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(z, got); err != nil || string(got) != want {
			t.Fatalf("read %q, %v, want %q", got, err, want)
		}
		goOn <- struct{}{}
	}
	if rest, err := io.ReadAll(z); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
}
