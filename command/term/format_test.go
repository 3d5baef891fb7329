package term

import "testing"

// A cell has no control characters.
func TestCellIsPrintable(t *testing.T) {
	for in, want := range map[string]string{"web": "web", "a|b": "a¦b", "a\nb": "a b", "字 ü": "字 ü", "it's": "it's",
		"\x1b[31mred\r": `\x1b[31mred\r`, "\u009b1A": `\u009b1A`, "\u202eabc": `\u202eabc`, "\xff": "�"} {
		if got := Cell(in); got != want {
			t.Errorf("Cell(%q) = %q, want %q", in, got, want)
		}
	}
}
