package readproxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxQuery limits the parameters of a request.
	maxQuery = 32
	// renewSelf is the path that renews a token that a template has created.
	renewSelf = "/v1/auth/token/renew-self"
)

// Texts of refused requests. The renderer shows them in events of the task.
const (
	malformed = "the client sends only reads, lists and writes of templates to Vault: this path or parameter is malformed"
	noSys     = "templates do not use sys/ of Vault"
	ofToken   = "templates do not look up, renew or revoke tokens of Vault: the client does so with the token of the task"
	ownToken  = "the client renews the token of the task itself"
	noBlock   = "the task has no vault block"
	noLogin   = "the task has no token of Vault, because its login has failed: see the event of the login. The request is tried again"
	tooLarge  = "the data of the request is incomplete, or larger than 512 KiB"
)

// tokenPaths are what templates may write below auth/token. All else answers with the token of the caller, or changes tokens
// that exist.
var tokenPaths = []string{"create", "create-orphan"}

// refusal returns why a request of a program is not sent, or "".
func refusal(method, path string, query url.Values) string {
	below, ok := strings.CutPrefix(path, "/v1/")
	if !ok || method != http.MethodGet && method != http.MethodPut || !wellFormed(below) || len(query) > maxQuery {
		return malformed
	}
	for _, values := range query {
		if len(values) != 1 {
			return malformed
		}
	}
	segments := strings.Split(below, "/")
	if strings.EqualFold(segments[0], "sys") && !systemPath(method, below) {
		return noSys
	}
	// A namespace can precede auth.
	for i := range len(segments) - 2 {
		if strings.EqualFold(segments[i], "auth") && strings.EqualFold(segments[i+1], "token") && !tokenPath(method, segments[i+2:]) &&
			(method != http.MethodPut || path != renewSelf) {
			return ofToken
		}
	}
	return ""
}

// wellFormed reports whether a path has only segments that no server changes.
func wellFormed(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, unicode.IsControl)
}

// systemPath reports whether templates use a path of sys/: for the version of a key-value engine, and to renew leases.
func systemPath(method, path string) bool {
	const probe, renew = "sys/internal/ui/mounts/", "sys/leases/renew"
	return method == http.MethodGet && strings.HasPrefix(path, probe) || method == http.MethodPut && path == renew
}

// tokenPath reports whether templates may use a path below auth/token.
func tokenPath(method string, below []string) bool {
	return method == http.MethodPut && slices.Contains(tokenPaths, below[0]) || below[0] == "roles"
}
