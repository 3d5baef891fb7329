package alloc

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"":             "",
		"ls\n":         "ls\n",
		"~.":           "LEFT",
		"a~.\n":        "a~.\n",
		"a\n~.b":       "a\nLEFT",
		"a\r~.":        "a\rLEFT",
		"~~.\n":        "~.\n",
		"~x~.":         "~x~.",
		"~\n~.":        "~\nLEFT",
		"~":            "~",
		"cd ~\n~/x\n":  "cd ~\n~/x\n",
		"\x03\r\r~~\r": "\x03\r\r~\r",
	} {
		for name, by := range map[string]func(io.Reader) io.Reader{"all at once": func(r io.Reader) io.Reader { return r },
			"one byte at a time": iotest.OneByteReader, "data together with EOF": iotest.DataErrReader} {
			left := ""
			got, err := io.ReadAll(newEscapes(by(strings.NewReader(in)), '~', func() { left = "LEFT" }))
			if string(got)+left != want || err != nil {
				t.Errorf("%s: read of %q = %q, %v; want %q", name, in, string(got)+left, err, want)
			}
		}
	}
}

func TestEscapeOf(t *testing.T) {
	for text, want := range map[string]byte{"~": '~', "none": 0, "": 0, "^": '^'} {
		if got, err := escapeOf(text); got != want || err != nil {
			t.Errorf("escapeOf(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := escapeOf("~~"); err == nil {
		t.Error("escapeOf(\"~~\") succeeded, want an error")
	}
}
