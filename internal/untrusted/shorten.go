package untrusted

import "strings"

// Shorten returns a text without its end if it has more than limit bytes. It is for the text of callers in messages.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
