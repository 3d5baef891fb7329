package migrate_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/migrate"
)

// remover is a response whose first bytes remove a part of the source.
type remover struct {
	http.ResponseWriter
	remove func()
}

func (r *remover) Write(p []byte) (int, error) {
	if r.remove != nil {
		r.remove()
		r.remove = nil
	}
	return r.ResponseWriter.Write(p)
}

// A snapshot never gets a digest if its source was removed, as a whole or in part, while it was read.
func TestSourceRemoved(t *testing.T) {
	for _, what := range []string{".", "alloc", "alloc/data", "t", "t/local"} {
		t.Run(what, func(t *testing.T) {
			from := newDisk(t)
			from.write("alloc/data/big", strings.Repeat("x", 1<<20))
			from.write("t/local/own", "own")
			w := httptest.NewRecorder()
			err := from.source().Serve(&remover{w, func() {
				if err := os.RemoveAll(filepath.Join(from.path, what)); err != nil {
					t.Error(err)
				}
			}}, httptest.NewRequest(http.MethodGet, "/", nil))
			if digest := w.Header().Get(migrate.DigestTrailer); err == nil || digest != "" {
				t.Errorf("Serve() = %v, with the digest %q", err, digest)
			}
		})
	}
	t.Run("before", func(t *testing.T) {
		from := newDisk(t)
		if err := os.RemoveAll(from.path); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if err := from.source().Serve(w, httptest.NewRequest(http.MethodGet, "/", nil)); err == nil ||
			w.Header().Get(migrate.DigestTrailer) != "" {
			t.Errorf("Serve() = %v, with the digest %q", err, w.Header().Get(migrate.DigestTrailer))
		}
	})
}
