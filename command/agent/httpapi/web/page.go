package web

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// escapedPage is the prefix of an escaped page token. No other token has this prefix.
const escapedPage = "%"

// pageToken escapes the token of the next page for a header. The token contains a job ID, which can
// contain newlines.
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
		return "", apierror.Errorf(http.StatusBadRequest, "invalid next token %q", text)
	}
	return token, nil
}
