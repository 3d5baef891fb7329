package fetch

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// Kind is how a source is downloaded: a getter of go-getter.
type Kind string

// The kinds of sources. Others of go-getter, such as file, are refused.
const (
	HTTP Kind = "http" // and https
	Git  Kind = "git"
	Hg   Kind = "hg"
	S3   Kind = "s3"
	GCS  Kind = "gcs"
)

// Executes reports whether downloads of this kind execute programs of the node.
func (k Kind) Executes() bool { return k == Git || k == Hg }

// protocols are the URL schemes that each kind may use.
var protocols = map[Kind][]string{
	HTTP: {"http", "https"}, Git: {"https", "http", "ssh", "git"}, Hg: {"https", "http", "ssh"},
	S3: {"https", "http"}, GCS: {"https", "http"},
}

// forcedKind matches the prefix that selects a getter, as in git::https://host/repository.
var forcedKind = pattern.Lazy(`^([A-Za-z0-9]+)::(.+)$`)

// scpLike matches the address of a Git repository without a scheme, as in git@host:path.
var scpLike = pattern.Lazy(`^git@([^:/]+):/?(.+)$`)

// Source is the source of an artifact with its options. It prints without credentials.
type Source struct {
	forced   string // such as "git"
	base     string // up to the query
	query    string // encoded
	fragment string
}

// ParseSource splits a source of the job and adds options to its query. It does not check the kind:
// the text may still contain references.
func ParseSource(source string, options map[string]string) (Source, error) {
	if source == "" {
		return Source{}, errors.New("source is empty")
	}
	if strings.ContainsFunc(source, unicode.IsControl) {
		return Source{}, errors.New("source contains a control character")
	}
	var s Source
	if m := forcedKind().FindStringSubmatch(source); m != nil {
		s.forced, source = m[1], m[2]
	}
	source, s.fragment, _ = strings.Cut(source, "#")
	s.base, s.query, _ = strings.Cut(source, "?")
	for _, key := range slices.Sorted(maps.Keys(options)) {
		if s.query != "" {
			s.query += "&"
		}
		s.query += url.QueryEscape(key) + "=" + url.QueryEscape(options[key])
	}
	if _, err := url.ParseQuery(s.query); err != nil && !strings.Contains(s.query, "${") {
		// go-getter would skip a part of it
		return Source{}, errors.New("the query of the source is malformed: encode characters such as % and ; in it")
	}
	return s, nil
}

// URL returns the complete source. It can contain credentials.
func (s Source) URL() string {
	out := s.base
	if s.forced != "" {
		out = s.forced + "::" + out
	}
	if s.query != "" {
		out += "?" + s.query
	}
	if s.fragment != "" {
		out += "#" + s.fragment
	}
	return out
}

// String returns the source without its query, fragment and user information.
func (s Source) String() string {
	out := userInfo().ReplaceAllString(s.base, "$1")
	if s.forced != "" {
		out = s.forced + "::" + out
	}
	return Clean(out)
}

// GoString implements fmt.GoStringer, so that %#v prints no credentials.
func (s Source) GoString() string { return s.String() }

// userInfo matches the user information of a URL.
var userInfo = pattern.Lazy(`(://)[^/]*@`)

// Option returns the first value of a query parameter, as go-getter reads it.
func (s Source) Option(key string) string { return s.options().Get(key) }

func (s Source) options() url.Values {
	values, _ := url.ParseQuery(s.query) // malformed pairs are skipped, as by the library
	return values
}

// WithoutOptions returns the source without the query parameters.
func (s Source) WithoutOptions(keys ...string) Source {
	var kept []string
	for pair := range strings.SplitSeq(s.query, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(key); err != nil || !slices.Contains(keys, name) {
			kept = append(kept, pair)
		}
	}
	s.query = strings.Join(kept, "&")
	return s
}

// Signature returns the default source of the signature: the same with the suffix ".minisig".
func (s Source) Signature() Source {
	s = s.WithoutOptions("checksum", "archive", "filename")
	s.base += ".minisig"
	s.fragment = ""
	return s
}

// Kind returns the kind of the source, or an error if it is not supported. It refuses local files and
// every protocol that a kind does not need.
func (s Source) Kind() (Kind, error) {
	scheme, detected := s.scheme()
	kind := Kind(s.forced)
	switch {
	case s.forced == "" && (scheme == "http" || scheme == "https") && detected == "":
		kind = HTTP
	case s.forced == "https":
		kind = HTTP
	case s.forced == "" && scheme == "git":
		kind = Git
	case s.forced == "":
		kind = detected
	}
	switch allowed, known := protocols[kind]; {
	case scheme == "" && strings.Contains(s.base, "://"):
		return "", errors.New("the URL is malformed")
	case scheme == "file" || scheme == "" || s.forced == "file":
		return "", errors.New("local files are not supported: use a URL, such as https://host/file")
	case !known && s.forced != "":
		return "", fmt.Errorf("unknown kind %q: use git, hg, s3, gcs, http or https", s.forced)
	case !known:
		return "", fmt.Errorf("unknown scheme %q: use http or https, or a prefix such as git:: before the URL", scheme)
	case !slices.Contains(allowed, scheme):
		return "", fmt.Errorf("scheme %q is not allowed for %s: use %s", scheme, kind, strings.Join(allowed, ", "))
	}
	return kind, nil
}

// scheme returns the scheme of the source. For the abbreviations that go-getter detects, it also returns
// their kind. A local path has no scheme.
func (s Source) scheme() (scheme string, detected Kind) {
	if u, err := url.Parse(s.base); err == nil && u.Scheme != "" {
		return u.Scheme, ""
	}
	switch {
	case strings.HasPrefix(s.base, "github.com/"), strings.HasPrefix(s.base, "gitlab.com/"), strings.HasPrefix(s.base, "bitbucket.org/"):
		return "https", Git
	case scpLike().MatchString(s.base):
		return "ssh", Git
	case strings.Contains(s.base, ".amazonaws.com/"):
		return "https", S3
	case strings.Contains(s.base, ".googleapis.com/"):
		return "https", GCS
	}
	return "", ""
}

// Host returns the name or address of the server, without the port, or "" if the source does not
// contain it.
func (s Source) Host() string {
	if m := scpLike().FindStringSubmatch(s.base); m != nil {
		return m[1]
	}
	u, err := url.Parse(s.base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Origin returns the origin of the source, or "" if it is not a URL.
func (s Source) Origin() string {
	u, err := url.Parse(s.base)
	if err != nil || u.Host == "" {
		return ""
	}
	return Origin(u)
}

// HasPassword reports whether the URL contains a password.
func (s Source) HasPassword() bool {
	u, err := url.Parse(s.base)
	if err != nil || u.User == nil {
		return false
	}
	_, has := u.User.Password()
	return has
}

// Origin returns the scheme, the host and the port of a URL.
func Origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port))
}

// public are the options of go-getter whose values are not credentials.
var public = []string{"archive", "checksum", "depth", "filename", "ref", "rev", "region", "version"}

// Secrets returns the values of the source that can be credentials: those of options, and the password.
func (s Source) Secrets() []string {
	var out []string
	for key, values := range s.options() {
		if !slices.Contains(public, key) {
			out = append(out, values...)
		}
	}
	if u, err := url.Parse(s.base); err == nil && u.User != nil {
		if password, ok := u.User.Password(); ok {
			out = append(out, password)
		}
	}
	return out
}
