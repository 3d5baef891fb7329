package artifact

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// anyURL matches the parts of a URL in a text that can contain credentials: user information and query.
var anyURL = pattern.Lazy(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s"'/@]*@)?([^\s"'?#]*)(\?[^\s"'#:)]*)?`)

// minSecret is the shortest value that is removed from a text. Shorter ones are not
// secrets: they occur in most texts.
const minSecret = 4

// scrub returns the error as text without credentials. Texts of the program contain what servers and git
// answer, and these repeat URLs.
func (j *job) scrub(err error) error {
	text := err.Error()
	for _, secret := range j.secrets() {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return errors.New(fetch.Clean(anyURL().ReplaceAllString(text, "$1$3")))
}

// secrets returns the values of the job that no text may contain, the longest first.
func (j *job) secrets() []string {
	var out []string
	add := func(values ...string) {
		for _, v := range values {
			for _, form := range []string{v, url.QueryEscape(v), url.PathEscape(v)} {
				if len(form) >= minSecret && !slices.Contains(out, form) {
					out = append(out, form)
				}
			}
		}
	}
	for _, v := range j.artifact.GetterHeaders {
		add(v)
		for field := range strings.FieldsSeq(v) { // "Bearer <token>"
			add(field)
		}
	}
	for _, s := range []fetch.Source{j.source, j.signed} {
		add(s.Secrets()...)
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}
