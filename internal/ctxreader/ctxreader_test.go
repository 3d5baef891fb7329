package ctxreader_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/ctxreader"
)

// A reader passes everything on until its context ends, also the end of the file.
func TestNew(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := ctxreader.New(ctx, strings.NewReader("ab"))
	one := make([]byte, 1)
	if n, err := r.Read(one); n != 1 || err != nil || one[0] != 'a' {
		t.Errorf("Read() = %d, %v, %q, want the first byte", n, err, one)
	}
	cancel()
	if n, err := r.Read(one); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Read() after the end of the context = %d, %v", n, err)
	}
	if all, err := io.ReadAll(ctxreader.New(t.Context(), strings.NewReader("ab"))); err != nil || string(all) != "ab" {
		t.Errorf("ReadAll() = %q, %v", all, err)
	}
}
