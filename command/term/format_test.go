package term

import (
	"testing"
)

// A cell has no control characters.
func TestCellIsPrintable(t *testing.T) {
	for in, want := range map[string]string{"web": "web", "a|b": "a¦b", "a\nb": "a b", "字 ü": "字 ü", "it's": "it's",
		"\x1b[31mred\r": `\x1b[31mred\r`, "\u009b1A": `\u009b1A`, "\u202eabc": `\u202eabc`, "\xff": "�"} {
		if got := Cell(in); got != want {
			t.Errorf("Cell(%q) = %q, want %q", in, got, want)
		}
	}
}

// Columns are aligned by what a terminal shows, not by the number of bytes or characters.
func TestColumnsByWidth(t *testing.T) {
	got := Table([]string{"ID|Name|Age", "字字|é|1m", "abcdef|e\u0301e\u0301|2m", "🚀|x|", "one"})
	want := "ID      Name  Age\n字字    é     1m\nabcdef  e\u0301e\u0301    2m\n🚀      x     <none>\none"
	if got != want {
		t.Errorf("Table() =\n%s\nwant\n%s", got, want)
	}
	if got, want := Pairs([]string{"名|a", "Name|b"}), "名   = a\nName = b"; got != want {
		t.Errorf("Pairs() = %q, want %q", got, want)
	}
}
