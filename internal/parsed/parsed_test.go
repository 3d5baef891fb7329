package parsed_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/parsed"
)

// TestParsed checks that a text is parsed once while it is cached, errors included, and that the
// cache is limited.
func TestParsed(t *testing.T) {
	asked := 0
	p := parsed.New(func(text string) (int, error) {
		asked++
		return strconv.Atoi(text)
	})
	for range 3 {
		if v, err := p.Of("7"); v != 7 || err != nil {
			t.Errorf("Of(7) = %d, %v", v, err)
		}
		if _, err := p.Of("x"); err == nil {
			t.Error("Of(x) = nil, want an error")
		}
	}
	if asked != 2 {
		t.Errorf("two texts were parsed %d times", asked)
	}
	long := strings.Repeat("0", 200) + "8"
	for range 2 {
		if v, err := p.Of(long); v != 8 || err != nil {
			t.Errorf("Of(a long text) = %d, %v, want 8", v, err)
		}
	}
	if asked != 4 {
		t.Errorf("a long text was remembered: parsed %d times, want 2", asked-2)
	}
	for i := range 1000 {
		if v, err := p.Of(strconv.Itoa(i)); v != i || err != nil {
			t.Fatalf("Of(%d) = %d, %v", i, v, err)
		}
	}
	asked = 0
	for i := range 1000 {
		if v, err := p.Of(strconv.Itoa(i)); v != i || err != nil {
			t.Fatalf("Of(%d) = %d, %v", i, v, err)
		}
	}
	if asked < 500 {
		t.Errorf("of 1000 texts %d were parsed again: more are kept than a few hundred", asked)
	}
}
