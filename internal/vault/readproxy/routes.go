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
	// probe is the path that shows the mount of the path after it.
	probe = "sys/internal/ui/mounts/"
)

// Texts of refused requests. The renderer shows them in events of the task.
const (
	malformed = "templates can only read, list and write at Vault: the path or a parameter of this request is malformed"
	noSys     = "templates cannot use paths below sys/ of Vault"
	ofToken   = "templates cannot look up, renew or revoke tokens of Vault: the client does so with the token of the task"
	ownToken  = "the client renews the token of the task itself"
	noLogin   = "the task has no token of Vault, because its login has failed: see the event of the login. " +
		"The request is tried again"
	tooLarge = "the data of the request is incomplete, or larger than 512 KiB"
	tooMany  = "too many requests at the same time"
)

// A namespace can precede sys and auth/token, and so can the name of a key-value engine. Below such a prefix only the
// names are refused that Vault has there. These are the ones that answer with a token, or change tokens, leases or
// Vault itself.
var (
	tokenNames = []string{
		"accessors", "lookup", "lookup-accessor", "lookup-self", "renew", "renew-accessor", "renew-self",
		"revoke", "revoke-accessor", "revoke-orphan", "revoke-self", "tidy",
	}
	systemNames = []string{
		"audit", "auth", "capabilities", "capabilities-accessor", "capabilities-self", "generate-root", "internal",
		"leases", "mounts", "namespaces", "policies", "policy", "raw", "rekey", "remount", "renew", "revoke",
		"revoke-force", "revoke-prefix", "seal", "step-down", "unseal", "wrapping",
	}
)

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
	if first, _, _ := strings.Cut(below, "/"); strings.EqualFold(first, "sys") && !systemPath(method, below) {
		return noSys
	}
	below = strings.TrimPrefix(below, probe)
	segments := strings.Split(strings.ToLower(below), "/")
	if has(segments, 0, "auth", "token") && !tokenPath(method, below) && (method != http.MethodPut || path != renewSelf) {
		return ofToken
	}
	for i := 1; i < len(segments)-1; i++ {
		switch {
		case segments[i] == "sys" && slices.Contains(systemNames, segments[i+1]):
			return noSys
		case has(segments, i, "auth", "token") && slices.Contains(tokenNames, segments[i+2]):
			return ofToken
		}
	}
	return ""
}

// has reports whether segments have two texts at an index, and another segment after them.
func has(segments []string, at int, first, second string) bool {
	return len(segments) > at+2 && segments[at] == first && segments[at+1] == second
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
	return method == http.MethodGet && strings.HasPrefix(path, probe) || method == http.MethodPut && path == "sys/leases/renew"
}

// tokenPath reports whether templates use a path below auth/token: to create tokens, and to read roles. All others
// answer with the token of the caller, or change tokens that exist.
func tokenPath(method, path string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "auth/token/"), "/")
	switch name {
	case "create", "create-orphan":
		return method == http.MethodPut
	case "roles":
		return method == http.MethodGet
	}
	return false
}
