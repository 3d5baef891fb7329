package firstbytes_test

import (
	"io"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/firstbytes"
)

func TestBuffer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		writes []string
		want   string
		cut    bool
	}{
		{"none", nil, "", false},
		{"short", []string{"ab", "c"}, "abc", false},
		{"exact", []string{"abcd", "e"}, "abcde", false},
		{"long", []string{"abcd", "efg", "h"}, "abcde", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cuts := 0
			b := &firstbytes.Buffer{Limit: 5, OnCut: func() { cuts++ }}
			for _, w := range tt.writes {
				if n, err := b.Write([]byte(w)); n != len(w) || err != nil {
					t.Errorf("Write(%q) = %d, %v, want %d, nil", w, n, err, len(w))
				}
			}
			if b.String() != tt.want || string(b.Bytes()) != tt.want {
				t.Errorf("String() = %q, Bytes() = %q, want %q", b.String(), b.Bytes(), tt.want)
			}
			if b.Truncated() != tt.cut || (cuts > 0) != tt.cut {
				t.Errorf("Cut() = %t after %d calls of OnCut, want %t", b.Truncated(), cuts, tt.cut)
			}
		})
	}
}

// The limit also holds for io.Copy, which uses the ReadFrom of a writer that has one.
func TestBuffer_Copy(t *testing.T) {
	b := &firstbytes.Buffer{Limit: 3}
	if n, err := io.Copy(b, io.LimitReader(strings.NewReader("a\nbcdef"), 6)); n != 6 || err != nil {
		t.Errorf("Copy() = %d, %v, want 6, nil", n, err)
	}
	if b.String() != "a\nb" || b.FirstLine() != "a" {
		t.Errorf("String() = %q, FirstLine() = %q, want %q and %q", b.String(), b.FirstLine(), "a\nb", "a")
	}
}
