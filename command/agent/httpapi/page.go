package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/nomad"
)

// escapedPage begins a page token that is escaped. No other token begins with it.
const escapedPage = "%"

// pageToken makes the token of the next page fit into a header. It holds the ID of a job,
// which may hold newlines.
func pageToken(token string) string {
	if !strings.ContainsFunc(token, unicode.IsControl) {
		return token
	}
	return escapedPage + url.QueryEscape(token)
}

// tokenOfPage is the inverse of pageToken.
func tokenOfPage(text string) (string, error) {
	escaped, ok := strings.CutPrefix(text, escapedPage)
	if !ok {
		return text, nil
	}
	token, err := url.QueryUnescape(escaped)
	if err != nil {
		return "", nomad.Errorf(http.StatusBadRequest, "invalid next token %q", text)
	}
	return token, nil
}
