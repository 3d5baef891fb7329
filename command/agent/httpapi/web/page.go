package web

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// escapedPage is the prefix of an escaped page token. A token with this prefix is escaped too.
const escapedPage = "%"

// PageToken escapes the token of the next page for a header. The token contains a job ID, which can
// contain newlines, or is that of a CSI plugin.
func PageToken(token string) string {
	if !strings.ContainsFunc(token, unicode.IsControl) && !strings.HasPrefix(token, escapedPage) {
		return token
	}
	return escapedPage + url.QueryEscape(token)
}

// tokenOfPage is the inverse of PageToken.
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
