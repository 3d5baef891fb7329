package artifact_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// BenchmarkFile is the download of 1 MiB, to compare with BenchmarkBare.
func BenchmarkFile(b *testing.B) {
	s := blobServer(b)
	h := newHarness(b, config())
	h.embedded = true
	for b.Loop() {
		if r := h.Fetch(b.Context(), h.task, []*nomad.TaskArtifact{{GetterSource: s + "/blob", RelativeDest: "local/"}})[0]; r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}

// BenchmarkCached is the same from the cache.
func BenchmarkCached(b *testing.B) {
	s := blobServer(b)
	h := withFetcher(b, newCached(b, b.TempDir()))
	h.embedded = true
	for b.Loop() {
		a := &nomad.TaskArtifact{GetterSource: s + "/blob?checksum=" + digest(blob), RelativeDest: "local/"}
		if r := h.Fetch(b.Context(), h.task, []*nomad.TaskArtifact{a})[0]; r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}

// BenchmarkArchive is the download and the unpacking of a file of 1 MiB.
func BenchmarkArchive(b *testing.B) {
	packed := gz(b, tarOf(b, []entry{{name: "blob", text: blob}}))
	s := httptest.NewServer(content(packed))
	b.Cleanup(s.Close)
	h := newHarness(b, config())
	h.embedded = true
	for b.Loop() {
		if r := h.Fetch(b.Context(), h.task, []*nomad.TaskArtifact{{GetterSource: s.URL + "/a.tgz", RelativeDest: "local/"}})[0]; r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}

// BenchmarkBare is a download of 1 MiB in this process.
func BenchmarkBare(b *testing.B) {
	s := blobServer(b)
	for b.Loop() {
		resp, err := http.Get(s + "/blob")
		if err != nil {
			b.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil {
			b.Fatal(err)
		}
	}
}

var blob = string(make([]byte, 1<<20))

func blobServer(b *testing.B) string {
	b.Helper()
	s := httptest.NewServer(content(blob))
	b.Cleanup(s.Close)
	return s.URL
}
