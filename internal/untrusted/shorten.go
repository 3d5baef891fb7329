package untrusted

import (
	"strings"
	"unicode"
)

// Shorten returns a text without its end if it has more than limit bytes. It is for the text of callers in messages.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// Line returns a shortened text whose characters that are not printable are spaces, such as those of escape sequences. It is
// for the text of programs and servers in messages.
func Line(text string, limit int) string {
	return Shorten(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text), limit)
}
