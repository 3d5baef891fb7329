package term

import "testing"

func TestWrap(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"short", "one two", "one two"},
		{"long", "one two three four", "one two\nthree four"},
		{"joined", "one\ntwo\n\nthree", "one two\n\nthree"},
		{"example", "one\n\n    nomad job run web.hcl\n\ntwo", "one\n\n    nomad job run web.hcl\n\ntwo"},
		{"long word", "a https://example.com/ b", "a\nhttps://example.com/\nb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Wrap(c.in, 10); got != c.want {
				t.Errorf("Wrap(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}
